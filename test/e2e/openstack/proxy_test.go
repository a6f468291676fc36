//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
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

// proxy stands before all of the cloud's APIs, one listener for each, and writes down every
// request. Keystone's catalog as seen through it names the proxy's listeners.
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
	// Several types may share one address (Cinder's): the proxy has one listener for each address.
	addresses := map[string]string{} // scheme and host, through the proxy
	var replacements []string
	services := make([]string, 0, len(targets))
	for service := range targets {
		services = append(services, service)
	}
	slices.SortFunc(services, func(a, b string) int { return cmp.Compare(a, b) })
	var keystone *httputil.ReverseProxy
	for _, service := range services {
		target, err := url.Parse(targets[service])
		if err != nil {
			t.Fatal(err)
		}
		base := target.Scheme + "://" + target.Host
		if addresses[base] != "" {
			continue
		}
		rp := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host // and the client's Host: links then name the proxy
		}}
		server := httptest.NewServer(p.record(service, rp))
		t.Cleanup(server.Close)
		addresses[base] = server.URL
		replacements = append(replacements, base, server.URL)
		if service == "identity" {
			keystone = rp
			p.authURL = server.URL + target.Path
		}
	}
	replacer := strings.NewReplacer(replacements...)
	keystone.ModifyResponse = func(resp *http.Response) error {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		body = []byte(replacer.Replace(string(body)))
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	return p
}

// record writes down what passes.
func (p *proxy) record(service string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &statusWriter{ResponseWriter: w}
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
		made.status = answer.status
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls = append(p.calls, made)
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
