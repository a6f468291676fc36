package openstack

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// Every request is begun by its service and where its endpoint begins, and its answer told; one that
// may not begin is not sent.
func TestBegin(t *testing.T) {
	sim := ossim.ForTest(t)
	var mu sync.Mutex
	var seen []string
	var shut error
	note := func(f string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf(f, args...))
	}
	s := open(t, passwordConfig(sim), Options{Begin: func(service, endpoint string, req *http.Request) (func(*http.Response), error) {
		mu.Lock()
		defer mu.Unlock()
		return func(resp *http.Response) {
			status, wait := 0, ""
			if resp != nil {
				status, wait = resp.StatusCode, resp.Header.Get("Retry-After")
			}
			note("%s %s %s %d %s", service, strings.TrimPrefix(endpoint, sim.URL()), req.Method, status, wait)
		}, shut
	}}, nil)
	ask := func(service, method string) error {
		t.Helper()
		client, err := s.Service(t.Context(), service)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Request(t.Context(), method, client.ServiceURL("no-such-thing"), &gophercloud.RequestOpts{})
		if err == nil {
			t.Errorf("%s answers nonsense", service)
		}
		return err
	}
	for name := range services {
		_ = ask(name, http.MethodGet)
	}
	throttled := sim.AddFault(ossim.Fault{Service: "network", Status: 429, RetryAfter: 7 * time.Second})
	_ = ask("network", http.MethodPost)
	throttled()
	defer sim.AddFault(ossim.Fault{Service: "network", Reset: true})()
	_ = ask("network", http.MethodPost)
	shut = errors.New("shut")
	sim.ResetRequests()
	if err := ask("network", http.MethodPost); !errors.Is(err, shut) || len(sim.Requests()) != 0 {
		t.Errorf("it may not begin, but %v, and %d requests", err, len(sim.Requests()))
	}
	want := []string{
		"block-storage /volume/ GET 404 ", "compute /compute/ GET 404 ", "identity  POST 201 ", "key-manager /key-manager/ GET 404 ",
		"load-balancer /load-balancer/ GET 404 ", "network /network/ GET 404 ", "network /network/ POST 0 ", "network /network/ POST 429 7",
	}
	slices.Sort(seen)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// What a cloud sends back is bounded, and what it repeats of the credentials is removed.
func TestAnswersAreBoundedAndRedacted(t *testing.T) {
	var size int
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ok" {
			chunk := strings.Repeat("x", 1<<20)
			for range size {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "token %s, password %s%s", r.Header.Get("X-Auth-Token"), ossim.UserPassword, strings.Repeat("y", 1<<20))
	}))
	defer cloud.Close()
	sim := ossim.ForTest(t)
	s := open(t, passwordConfig(sim), Options{}, nil)
	pc, _, err := s.login().ready(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = pc.Request(t.Context(), http.MethodGet, cloud.URL+"/bad", &gophercloud.RequestOpts{})
	var answer gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answer) {
		t.Fatalf("got %v, want the answer 400", err)
	}
	if len(answer.Body) > maxErrorBody+100 || !strings.HasPrefix(string(answer.Body), "token [redacted], password [redacted]yyy") {
		t.Errorf("%d bytes, beginning with %.60q", len(answer.Body), answer.Body)
	}
	for _, size = range []int{3, maxBody>>20 + 1} {
		resp, err := pc.Request(t.Context(), http.MethodGet, cloud.URL+"/ok", &gophercloud.RequestOpts{KeepResponseBody: true})
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if tooLong := size > maxBody>>20; n > maxBody || (err != nil) != tooLong {
			t.Errorf("of %d MiB %d bytes were read: %v", size, n, err)
		}
	}
}

// redirecting answers with a redirect to where, and once there with 200; it notes who gets the token.
type redirecting struct {
	where string
	got   []string
}

func (r *redirecting) RoundTrip(req *http.Request) (*http.Response, error) {
	r.got = append(r.got, req.URL.Scheme+"://"+req.URL.Host+" "+req.Header.Get("X-Auth-Token"))
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	if len(r.got) == 1 {
		answer.StatusCode = http.StatusFound
		answer.Header.Set("Location", r.where)
	}
	return answer, nil
}

// The token goes along with a redirect, so that one is followed to the same host alone, and by the same scheme.
func TestDefectTokenFollowsRedirects(t *testing.T) {
	for where, followed := range map[string]bool{
		"https://compute.example/v2.1/": true, "/v2.1/": true,
		"http://compute.example/v2.1/": false, "https://evil.example/": false, "https://compute.example:8774/": false,
	} {
		r := &redirecting{where: where}
		client := &http.Client{Transport: r, CheckRedirect: sameHost}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://compute.example/v2.1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Auth-Token", "t0ken")
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		want := []string{"https://compute.example t0ken"}
		if followed {
			want = append(want, want[0])
		}
		if diff := cmp.Diff(want, r.got); diff != "" || (err == nil) != followed {
			t.Errorf("%s: %v, requests (-want +got):\n%s", where, err, diff)
		}
	}
}
