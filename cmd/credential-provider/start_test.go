package main

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"testing"
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
