package openstack

import (
	"context"
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

func TestObserve(t *testing.T) {
	sim := ossim.ForTest(t)
	var mu sync.Mutex
	var seen []string
	s := open(t, passwordConfig(sim), Options{Observe: func(service, method string, status int, d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s %s %d %t", service, method, status, d > 0))
	}}, nil)
	for name := range services {
		client, err := s.Service(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Get(t.Context(), client.ServiceURL("no-such-thing"), nil, nil)
		if err == nil {
			t.Errorf("%s answers %s to nonsense", name, resp.Status)
		}
	}
	defer sim.AddFault(ossim.Fault{Service: "network", Reset: true})()
	client, err := s.Service(t.Context(), "network")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Post(t.Context(), client.ServiceURL("ports"), map[string]any{}, nil, nil); err == nil {
		t.Error("a reset connection is no error")
	}
	want := []string{
		"block-storage GET 404 true", "compute GET 404 true", "identity POST 201 true", "key-manager GET 404 true",
		"load-balancer GET 404 true", "network GET 404 true", "network POST 0 true",
	}
	slices.Sort(seen)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// Every request but Keystone's is admitted by its service and where its endpoint begins, and
// its answer told; one that is not admitted is not sent.
func TestAdmit(t *testing.T) {
	sim := ossim.ForTest(t)
	var mu sync.Mutex
	var admitted, answered []string
	var shut error
	s := open(t, passwordConfig(sim), Options{
		Admit: func(_ context.Context, service, endpoint string) error {
			mu.Lock()
			defer mu.Unlock()
			admitted = append(admitted, service+" "+strings.TrimPrefix(endpoint, sim.URL()))
			return shut
		},
		Answered: func(service, _ string, status int, header http.Header) {
			mu.Lock()
			defer mu.Unlock()
			answered = append(answered, fmt.Sprint(service, " ", status, " ", header.Get("Retry-After")))
		},
	}, nil)
	defer sim.AddFault(ossim.Fault{Service: "network", Status: 429, RetryAfter: 7 * time.Second})()
	post := func(service string) error {
		client, err := s.Service(t.Context(), service)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Post(t.Context(), client.ServiceURL("no-such-thing"), map[string]any{}, nil, nil)
		return err
	}
	if post("compute") == nil || post("network") == nil {
		t.Error("no error")
	}
	shut = errors.New("shut")
	sim.ResetRequests()
	if err := post("network"); !errors.Is(err, shut) || len(sim.Requests()) != 0 {
		t.Errorf("not admitted, but %v, and %d requests", err, len(sim.Requests()))
	}
	if diff := cmp.Diff([]string{"compute /compute/", "network /network/", "network /network/"}, admitted); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"compute 404 ", "network 429 7"}, answered); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
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
