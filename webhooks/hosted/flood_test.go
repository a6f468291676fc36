package hosted_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// slow is a body of which the last byte does not come until the end.
type slow struct {
	io.Reader
	end <-chan struct{}
}

func (s slow) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); n > 0 || err == nil {
		return n, nil
	}
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

// good is a request as the API server sends it, and as large as usual ones.
func good() attack {
	return of(service.Path, svc(`,"annotations":{"loadbalancer.openstack.org/keep-floatingip":"true","example.org/note":"`+strings.Repeat("x", 9_000)+`"}`, `,"clusterIP":"10.0.0.1","ipFamilies":["IPv4"],"ports":[{"name":"http","protocol":"TCP","port":80,"nodePort":30080}]`), "")
}

// hostile is one client that asks what costs most, does not end its requests, or leaves, until
// ctx ends. It never waits longer than it must.
func (s *target) hostile(ctx context.Context, c *http.Client, all []attack, n int) {
	for i := n; ctx.Err() == nil; i++ {
		a := all[i%len(all)]
		switch n % 4 {
		case 0, 1:
			_, _, _, _ = s.ask(ctx, c, a, "30s") // what comes out is for the other test to see
		case 2: // the head of a small or a large request only, with or without its length
			turn, cancel := context.WithTimeout(ctx, 3*time.Second)
			body := slow{strings.NewReader(a.body[:min(len(a.body), 2000)]), turn.Done()}
			if req, err := http.NewRequestWithContext(turn, http.MethodPost, s.url+a.path+"?timeout=30s", body); err == nil {
				req.Header.Set("Content-Type", "application/json")
				req.ContentLength = []int64{-1, 3000, 3 << 20}[i%3]
				if resp, err := c.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			}
			cancel()
		case 3: // goes away
			turn, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			_, _, _, _ = s.ask(turn, c, a, "30s")
			cancel()
		}
	}
}

// flooded names the server to a process that is to be all hostile clients.
const flooded = "ISTHMUS_TEST_FLOODED"

// attackers attacks until its standard input ends, and writes a line when all clients have begun.
func attackers(t *testing.T, url string) {
	s, all := &target{url: url}, slices.Collect(maps.Values(attacks()))
	ctx, cancel := context.WithCancel(t.Context())
	var wg, begun sync.WaitGroup
	for n := range hostileClients {
		c := s.client(t, fmt.Sprintf("127.0.1.%d", n+1))
		begun.Add(1)
		wg.Go(func() {
			_, _, _, _ = s.ask(ctx, c, good(), "30s")
			begun.Done()
			s.hostile(ctx, c, all, n)
		})
		for i := range 10 * (n % 4 / 2) { // more than are handled at a time
			wg.Go(func() { s.hostile(ctx, c, all, n+4*i) })
		}
	}
	begun.Wait()
	fmt.Println(flooded)
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
}

// attack starts that process, which leaves the CPUs to others, as if it ran elsewhere. It returns
// when it attacks, and ends it with the test.
func (s *target) attack(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFlood$") //nolint:gosec // this program
	cmd.Env, cmd.Stderr = append(os.Environ(), flooded+"="+s.url), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // what becomes of attackers does not matter
	})
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, 19); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), flooded) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
	}
	t.Fatal("no attack")
}

// measured asks n times, one after the other, and returns how long each took; refused counts
// those that were not answered by the webhook.
func (s *target) measured(t *testing.T, c *http.Client, n int) (took []time.Duration, refused int) {
	t.Helper()
	for range n {
		start := time.Now()
		_, resp, status, err := s.ask(t.Context(), c, good(), "10s")
		took = append(took, time.Since(start))
		if err != nil || status != nil || !resp.Allowed {
			refused++
			t.Logf("not answered by the webhook: %v, %v, %v", err, resp, status)
		}
	}
	slices.Sort(took)
	return took, refused
}

const hostileClients = 200

// While 200 clients do their worst, the API server's requests are all answered. How long it takes is
// logged: how long a process waits for a CPU is not ours to say.
func TestFlood(t *testing.T) {
	if url := os.Getenv(flooded); url != "" {
		attackers(t, url)
		return
	}
	const requests, others = 1000, 1000
	s := startTarget(t)
	apiServer := s.client(t, "127.0.0.1")
	idle, refused := s.measured(t, apiServer, requests)
	if refused > 0 {
		t.Fatal("refused without any load")
	}
	s.attack(t)
	var busy []time.Duration
	for lines := s.log.lines(); len(busy) < requests || len(busy) < 20*requests && s.log.lines()-lines < others+len(busy); {
		took, n := s.measured(t, apiServer, 100)
		busy, refused = append(busy, took...), refused+n
	}
	slices.Sort(busy)
	for name, took := range map[string][]time.Duration{"idle": idle, "under attack": busy} {
		of := func(permille int) time.Duration { return took[(len(took)-1)*permille/1000].Round(time.Microsecond) }
		t.Logf("%s, %d requests: median %s, 99%% %s, 99.9%% %s, worst %s", name, len(took), of(500), of(990), of(999), of(1000))
	}
	if refused > 0 {
		t.Errorf("%d of %d requests of the API server were refused", refused, len(busy))
	}
}
