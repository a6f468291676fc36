package integration

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

var binaryFile = filepath.Join(os.TempDir(), fmt.Sprintf("isthmus-ccm-%d", os.Getpid()))

var buildBinary = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", binaryFile, "github.com/isthmus-cloud/isthmus/cmd/cloud-controller-manager")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build` does, which shares the build cache
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
})

// binary is the real cloud-controller-manager, built once for the package.
func binary(t *testing.T) string {
	t.Helper()
	if err := buildBinary(); err != nil {
		t.Fatal(err)
	}
	return binaryFile
}

func removeBinary() error {
	err := os.Remove(binaryFile)
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// refusedAddress is an address on which nothing listens.
func refusedAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// What is wrong at the start is one line on stderr that names it and the next step, and an
// exit code; no stack trace, no secret, no process that lingers.
func TestBadInputEndsTheBinary(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	secure := ossim.ForTest(t, ossim.Options{TLS: true})
	file := binary(t)
	const secret = "hunter2-is-secret"
	good := sim.CloudConf()
	conf := func(old, updated string) string { return strings.ReplaceAll(good, old, updated) }
	kube := func(change func(*rest.Config)) string {
		config := rest.CopyConfig(c.Config)
		change(config)
		out := filepath.Join(t.TempDir(), "kubeconfig")
		if err := controlplane.WriteKubeconfig(out, config); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, test := range []struct {
		name, conf, kubeconfig string
		args                   []string
		code                   int
		want                   []string // on the only line of stderr
	}{
		{name: "unknown flag", args: []string{"--cloud-confg=x"}, code: 2, want: []string{"--cloud-confg", "did you mean --cloud-config?"}},
		{name: "unknown cloud", args: []string{"--cloud-provider=opnstack"}, code: 2, want: []string{`"opnstack"`, "openstack"}},
		{name: "no workers", args: []string{"--concurrent-service-syncs=0"}, code: 2, want: []string{"--concurrent-service-syncs must be at least 1"}},
		{name: "missing kubeconfig", kubeconfig: "/does/not/exist", code: 2, want: []string{"--kubeconfig", "/does/not/exist", "no such file"}},
		{name: "missing cloud.conf", args: []string{"--cloud-config=/does/not/exist"}, code: 2, want: []string{"--cloud-config", "/does/not/exist", "no such file"}},
		{name: "broken cloud.conf", conf: "[Global\nauth-url = x", code: 1, want: []string{"cloud.conf"}},
		{name: "cloud.conf with a bad value", conf: good + "\n[Metadata]\nrequest-timeout = soon\n", code: 1, want: []string{"cloud.conf", "request-timeout", "soon"}},
		{name: "wrong password", conf: conf(ossim.UserPassword, secret), code: 1, want: []string{"401", "password"}},
		{name: "unreachable Keystone", conf: conf(sim.AuthURL(), "http://"+refusedAddress(t)+"/v3"), code: 1, want: []string{"/v3", "auth-url"}},
		{name: "wrong CA", conf: strings.ReplaceAll(secure.CloudConf(), "ca-file = "+secure.CAFile(), ""), code: 1, want: []string{"certificate", "ca-file"}},
		{name: "broken kubeconfig", kubeconfig: write(t, "kubeconfig", "{"), code: 1, want: []string{"kubeconfig"}},
		{name: "API server that refuses us", kubeconfig: kube(func(c *rest.Config) { c.CertData, c.KeyData, c.BearerToken = nil, nil, secret }), code: 1, want: []string{"API server does not accept our credentials", "kubeconfig"}},
		{name: "unreachable API server", kubeconfig: kube(func(c *rest.Config) { c.Host = "https://" + refusedAddress(t) }), args: []string{"--start-timeout=5s"}, code: 1, want: []string{"API server cannot be reached", "--kubeconfig"}},
		{name: "routes without a range", args: []string{"--cluster-cidr="}, code: 1, want: []string{"--cluster-cidr is required", "--configure-cloud-routes=false"}},
		{name: "tracing without a share", args: []string{"--tracing-config-file=" + write(t, "tracing.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n")}, code: 2, want: []string{"--tracing-config-file", "samplingRatePerMillion"}},
		{name: "webhook that there is not", args: []string{"--webhooks=nonsense"}, code: 2, want: []string{"--webhooks", `"nonsense"`}},
		{name: "delay beyond the end", args: []string{"--webhooks=*", "--webhook-cert-dir=/does/not/matter", "--webhook-shutdown-delay=40s"}, code: 2, want: []string{"--webhook-shutdown-delay: 40s", "--shutdown-timeout=30s"}},
		{name: "port in use", args: []string{"--secure-port=" + portOf(t, sim.URL())}, code: 1, want: []string{"address already in use", "--secure-port"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.conf == "" {
				test.conf = good
			}
			if test.kubeconfig == "" {
				test.kubeconfig = c.kubeconfig
			}
			args := append([]string{"--cloud-provider=openstack", "--cloud-config=" + write(t, "cloud.conf", test.conf), "--kubeconfig=" + test.kubeconfig,
				"--bind-address=127.0.0.1", "--secure-port=0", "--cluster-cidr=10.244.0.0/16"}, test.args...)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, file, args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			cmd.Env = []string{"HOME=" + t.TempDir()}
			_ = cmd.Run() // the exit code is checked
			text := stderr.String()
			t.Log(strings.TrimSpace(text))
			if got := cmd.ProcessState.ExitCode(); got != test.code {
				t.Errorf("exit code %d, want %d", got, test.code)
			}
			if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "cloud-controller-manager: ") || stdout.Len() > 0 {
				t.Errorf("want one line on stderr, got:\n%s%s", text, stdout.String())
			}
			for _, want := range test.want {
				if !strings.Contains(text, want) {
					t.Errorf("stderr lacks %q: %s", want, text)
				}
			}
			for _, bad := range []string{secret, ossim.UserPassword + " ", "goroutine", "panic"} {
				if strings.Contains(text, bad) {
					t.Errorf("stderr shows %q: %s", bad, text)
				}
			}
		})
	}
}

func portOf(t *testing.T, url string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func freePort(t *testing.T) string { return controlplane.MustFreePort(t, "127.0.0.1") }

// The real binary works, and SIGTERM ends it with exit code 0 and the lease released.
func TestBinaryRunsAndEnds(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-", Zones: []string{"az1", "az2"}, Flavor: "m1.small"})
	c.register(servers, always(nodeState{ready: true}))
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), binary(t), "--cloud-provider=openstack", "--cloud-config="+write(t, "cloud.conf", sim.CloudConf()),
		"--kubeconfig="+c.kubeconfig, "--bind-address=127.0.0.1", "--secure-port="+port, "--cluster-cidr=10.244.0.0/16", "--v=2", "--logging-format=json",
		"--cert-dir="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, address: "127.0.0.1:" + port}
	r.wait("/readyz", http.StatusOK)
	eventually.Met(t, func() string { return c.initialized(servers) })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v:\n%s", err, stderr.String())
	}
	if h := c.holder(mainLease); h != "" {
		t.Errorf("the lease is still held by %q", h)
	}
	if strings.Contains(stderr.String(), `"`+ossim.UserPassword+`"`) {
		t.Error("the log shows the password")
	}
	if strings.Contains(stderr.String(), "leader election lost") {
		t.Error("the log calls a requested end a lost election")
	}
	for line := range strings.SplitSeq(strings.TrimSpace(stderr.String()), "\n") {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("not JSON: %s", line)
		}
	}
}
