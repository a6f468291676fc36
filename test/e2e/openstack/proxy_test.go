//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/wiretap"
)

// call is a request that a program under test has made.
type call struct {
	service, method, path string // service is the catalog's type; path includes the query
	status                int
	at                    time.Time
}

func (c call) String() string {
	return fmt.Sprintf("%s %s %s → %d", c.service, c.method, c.path, c.status)
}

// proxy stands before all of the cloud's APIs and writes down every request.
type proxy struct {
	authURL string // Keystone's, through the proxy

	mu    sync.Mutex
	calls []call
	open  int                 // those that are not answered
	cut   func(*http.Request) // see at
}

// at calls do when the nth request whose method and path match has come. The cloud gets the
// request after that, even if its client is gone.
func (p *proxy) at(nth int, match *regexp.Regexp, do func()) {
	seen := 0
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = func(r *http.Request) {
		if !match.MatchString(r.Method + " " + r.URL.Path) {
			return
		}
		p.mu.Lock()
		seen++
		now := seen == nth
		p.mu.Unlock()
		if now {
			do()
		}
	}
}

func newProxy(t testing.TB, c *realCloud) *proxy {
	t.Helper()
	p := &proxy{}
	targets := map[string]string{"identity": c.authURL}
	for _, entry := range c.member.catalog.Entries {
		for _, e := range entry.Endpoints {
			if e.Interface == "public" && entry.Type != "identity" {
				targets[entry.Type] = e.URL
			}
		}
	}
	// Several types may share one address (Cinder's): the first of them names what passes there.
	services, apis := map[string]string{}, []string{}
	for _, service := range slices.Sorted(maps.Keys(targets)) {
		if api := targets[service]; services[api] == "" {
			services[api] = service
			apis = append(apis, api)
		}
	}
	tap, err := wiretap.Start(c.authURL, apis, func(api string, forward http.Handler) http.Handler { return p.record(services[api], forward) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tap.Close)
	p.authURL = tap.Keystone
	return p
}

// record writes down what passes.
func (p *proxy) record(service string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &wiretap.Answer{ResponseWriter: w}
		made := call{service: service, method: r.Method, path: r.URL.RequestURI(), at: time.Now()}
		p.mu.Lock()
		p.open++
		cut := p.cut
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.open--
		}()
		if cut != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			cut(r)
			r = r.WithContext(context.WithoutCancel(r.Context()))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(answer, r)
		made.status = answer.Status
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls = append(p.calls, made)
	})
}

// mark is where the calls stand; since(mark) returns those after it.
func (p *proxy) mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls)
}

func (p *proxy) since(mark int) []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls[mark:])
}

// pending is how many calls the cloud has not answered.
func (p *proxy) pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// mutations are the calls that change the cloud: all but reads and logins.
func mutations(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool {
		return c.method == http.MethodGet || c.method == http.MethodHead || c.service == "identity"
	})
}

// accepted are the calls that the cloud did not refuse.
func accepted(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.status >= http.StatusBadRequest })
}

// lbPoll is the read of one load balancer, or of its status tree, by which its status is awaited.
var lbPoll = regexp.MustCompile(`^/v2(\.0)?/lbaas/loadbalancers/[0-9a-f-]{36}(/status)?(\?.*)?$`)

// withoutPolls are the calls that the budgets count: no logins, and no reads of one load balancer.
func withoutPolls(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool {
		return c.service == "identity" || c.method == http.MethodGet && lbPoll.MatchString(c.path)
	})
}

// of are the calls of one service.
func of(service string, calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.service != service })
}

func list(calls []call) string {
	lines := make([]string, len(calls))
	for i, c := range calls {
		lines[i] = "  " + c.String()
	}
	return strings.Join(lines, "\n")
}

func freePort(t testing.TB) string { return controlplane.MustFreePort(t, "127.0.0.1") }
