package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
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
	yaml := filepath.Join(t.TempDir(), "clouds.yaml")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out output
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"--servers=5", "--tls", "--clouds-yaml", yaml}, &out) }()
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(out.String(), "Ctrl-C") && time.Now().Before(deadline) {
		select {
		case err := <-ended:
			t.Fatalf("ended early: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(clouds.WithLocations(yaml), clouds.WithCloudName("sim"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig}
	defer transport.CloseIdleConnections()
	client, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	compute, err := openstack.NewComputeV2(client, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := servers.List(compute, nil).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := servers.ExtractServers(pages); err != nil || len(list) != 5 {
		t.Errorf("%d servers, %v", len(list), err)
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
		{"--servers=-1", "--servers -1 is negative"},
		{"--servers=x", "invalid argument"},
		{"--listen=192.0.2.1:0", "not a loopback address"},
		{"--net=300", "outside 1-254"},
		{"--servers=100000", "ask for fewer"},
		{"--clouds-yaml=/nonexistent/x", "write --clouds-yaml"},
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
	for _, flag := range []string{"--listen", "--net", "--servers", "--tls", "--clouds-yaml", "--cloud-conf"} {
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
