package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What may be allocated before main: it is done for every pull, whatever is served. Most of it is the AWS
// SDK's, and 40 % that of its two clients for ECR, whose tables of types it makes there: a millisecond, once in
// the twelve hours that the kubelet keeps an answer. make bench-credential measures the time that it costs.
const (
	maxInitBytes  = 1_400_000
	maxInitAllocs = 9_600
)

func TestInitAllocations(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), builtBinary(t), "--version")
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	sumBytes, sumAllocs, packages := 0, 0, 0
	for _, line := range strings.Split(trace.String(), "\n") {
		fields := strings.Fields(line) // init NAME @AT ms, CLOCK ms clock, N bytes, N allocs
		if len(fields) < 10 || fields[0] != "init" {
			continue
		}
		b, errB := strconv.Atoi(fields[len(fields)-4])
		a, errA := strconv.Atoi(fields[len(fields)-2])
		if errB != nil || errA != nil {
			t.Fatalf("%q: %v, %v", line, errB, errA)
		}
		sumBytes, sumAllocs, packages = sumBytes+b, sumAllocs+a, packages+1
		if strings.HasPrefix(fields[1], "github.com/isthmus-cloud/") && a > 10 {
			t.Errorf("%s allocates %d times before main; do it where it is needed", fields[1], a)
		}
	}
	t.Logf("%d packages allocate %d bytes in %d allocations before main", packages, sumBytes, sumAllocs)
	if packages < 50 || sumBytes > maxInitBytes || sumAllocs > maxInitAllocs {
		t.Errorf("%d packages allocate %d bytes in %d allocations before main, want at most %d in %d; GODEBUG=inittrace=1 shows where", packages, sumBytes, sumAllocs, maxInitBytes, maxInitAllocs)
	}
}

// The plugin ends before the first garbage collection, which would take a fifth of its time with the system's CAs: they are most of
// what it has. Commands that stay are collected as usual.
func TestNoGarbageCollection(t *testing.T) {
	w := startAWS(t)
	env := append(w.Env(), "AWS_CA_BUNDLE=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "GODEBUG=gctrace=1")
	for i, v := range env {
		if strings.HasPrefix(v, "SSL_CERT_FILE=") {
			env[i] = "SSL_CERT_FILE=" + manyCAs(t, strings.TrimPrefix(v, "SSL_CERT_FILE="))
		}
	}
	got := executeEnv(t, env, request("v1", ownRegistry+"/app"), "--registries=ecr")
	if got.code != 0 || strings.Contains(got.stderr, "gc 1 @") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

// manyCAs are as many CAs as a system has, with one that is needed.
func manyCAs(t *testing.T, needed string) string {
	t.Helper()
	data, err := os.ReadFile(needed) //nolint:gosec // the test's
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cas.pem")
	for i := range 150 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		ca := &x509.Certificate{SerialNumber: big.NewInt(int64(i)), Subject: pkix.Name{CommonName: strings.Repeat("x", 500), SerialNumber: strconv.Itoa(i)}, IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
