package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// output is a buffer that can be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func TestRun(t *testing.T) {
	env := filepath.Join(t.TempDir(), "aws.env")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out output
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--instances=5", "--region=eu-west-1", "--env", env}, &out) }()
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(out.String(), "Ctrl-C") && time.Now().Before(deadline) {
		select {
		case err := <-ended:
			t.Fatalf("ended early: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	data, err := os.ReadFile(env)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if !ok {
			t.Fatalf("line %q", line)
		}
		t.Setenv(name, strings.Trim(value, "'"))
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, os.DevNull)
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := ec2.NewFromConfig(cfg).DescribeInstances(t.Context(), nil)
	if err != nil || len(found.Reservations) != 5 {
		t.Errorf("%+v, %v; want 5 instances", found, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

func TestBadFlags(t *testing.T) {
	tests := []struct{ args, want string }{
		{"--nonsense", "unknown flag: --nonsense"},
		{"stray", `unexpected argument "stray"`},
		{"--instances=-1", "--instances -1: give 0 to 10000"},
		{"--instances=10001", "--instances 10001: give 0 to 10000"},
		{"--instances=x", "invalid argument"},
		{"--region=mars", `--region "mars": AWS has none of that name`},
		{"--env=/nonexistent/x", "write --env"},
	}
	for _, tt := range tests {
		if err := run(t.Context(), []string{tt.args}, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out output
	if err := run(t.Context(), []string{"--help"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--region", "--cluster", "--instances", "--env", "--actions"} {
		if !strings.Contains(out.String(), flag) {
			t.Errorf("--help lacks %s:\n%s", flag, out.String())
		}
	}
}

func TestTemporaryFilesGo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := run(ctx, nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}
