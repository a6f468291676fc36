package openstack_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

func TestFaults(t *testing.T) {
	status := func(want int) func(error, int) bool {
		return func(err error, _ int) bool { return gophercloud.ResponseCodeIs(err, want) }
	}
	servedN := func(want int) func(error, int) bool {
		return func(err error, n int) bool { return err == nil && n == want }
	}
	tests := []struct {
		name  string
		fault ossim.Fault
		ok    func(err error, servers int) bool
	}{
		{"403", ossim.Fault{Status: http.StatusForbidden}, status(http.StatusForbidden)},
		{"404 of the endpoint", ossim.Fault{Status: http.StatusNotFound}, func(err error, _ int) bool {
			var e gophercloud.ErrUnexpectedResponseCode
			return errors.As(err, &e) && e.Actual == http.StatusNotFound && strings.HasPrefix(string(e.Body), "<html>")
		}},
		{"401", ossim.Fault{Service: "compute", Status: http.StatusUnauthorized, Times: 1}, servedN(4)}, // gophercloud asks for a new token
		{"500 of one path", ossim.Fault{Service: "compute", Method: "GET", Path: "/servers/detail", Status: http.StatusInternalServerError}, status(http.StatusInternalServerError)},
		{"of the paths below", ossim.Fault{Path: "/servers", Status: http.StatusBadGateway}, status(http.StatusBadGateway)},
		{"by pattern", ossim.Fault{Path: "/servers/*", Status: http.StatusBadGateway}, status(http.StatusBadGateway)},
		{"another service", ossim.Fault{Service: "network", Status: http.StatusBadGateway}, servedN(4)},
		{"another method", ossim.Fault{Method: "POST", Status: http.StatusBadGateway}, servedN(4)},
		{"another path", ossim.Fault{Path: "/serv", Status: http.StatusBadGateway}, servedN(4)},
		{"reset", ossim.Fault{Reset: true}, func(err error, _ int) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) }},
		{"hang", ossim.Fault{Hang: true}, func(err error, _ int) bool { return errors.Is(err, context.DeadlineExceeded) }},
		{"latency beyond the deadline", ossim.Fault{Latency: time.Minute}, func(err error, _ int) bool { return errors.Is(err, context.DeadlineExceeded) }},
		{"truncated", ossim.Fault{Truncate: true}, func(err error, _ int) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"empty list", ossim.Fault{EmptyList: true}, servedN(0)},
		{"short list", ossim.Fault{ShortList: true}, servedN(2)},
		{"no JSON", ossim.Fault{Body: "<html>"}, func(err error, _ int) bool { return err != nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sim := ossim.ForTest(t)
			sim.SeedServers(ossim.Seed{Count: 4, NamePrefix: "node-"})
			c := compute(t, sim, "")
			remove := sim.AddFault(tt.fault)
			limit := time.Minute
			if tt.fault.Hang || tt.fault.Latency > 0 { // what is waited for in vain
				limit = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			list := func() (int, error) {
				pages, err := servers.List(c, nil).AllPages(ctx)
				if err != nil {
					return 0, err
				}
				got, err := servers.ExtractServers(pages)
				return len(got), err
			}
			n, err := list()
			if !tt.ok(err, n) {
				t.Errorf("with the fault: %d servers, %v", n, err)
			}
			remove()
			ctx = t.Context()
			if n, err := list(); err != nil || n != 4 {
				t.Errorf("afterwards: %d servers, %v", n, err)
			}
		})
	}
}

func TestFaultTimesAndRetryAfter(t *testing.T) {
	sim := ossim.ForTest(t)
	c := compute(t, sim, "")
	sim.AddFault(ossim.Fault{Service: "compute", Status: http.StatusTooManyRequests, RetryAfter: 1500 * time.Millisecond, Times: 2})
	var waits []string
	for range 3 {
		_, err := listServers(t, c, servers.ListOpts{})
		var e gophercloud.ErrUnexpectedResponseCode
		if !errors.As(err, &e) {
			waits = append(waits, "fine")
			continue
		}
		waits = append(waits, e.ResponseHeader.Get("Retry-After"))
	}
	if waits[0] != "2" || waits[1] != "2" || waits[2] != "fine" {
		t.Errorf("Retry-After: %v, want 2, 2 and then no fault", waits)
	}
}

func TestRequestLog(t *testing.T) {
	sim := ossim.ForTest(t)
	c := serviceClient(t, sim, openstack.NewBlockStorageV3)
	sim.ResetRequests()
	_, _ = volumes.Get(t.Context(), c, "nope").Extract()
	if _, err := volumes.Create(t.Context(), c, volumes.CreateOpts{Size: 1}, nil).Extract(); err != nil {
		t.Fatal(err)
	}
	listVolumes(t, c, volumes.ListOpts{Name: "x"})
	got := sim.Requests()
	want := []ossim.Request{
		{Service: "volume", Method: "GET", Path: "/volumes/nope", Status: 404},
		{Service: "volume", Method: "POST", Path: "/volumes", Status: 202},
		{Service: "volume", Method: "GET", Path: "/volumes/detail", Query: url.Values{"name": {"x"}}, Status: 200},
	}
	if len(got) != len(want) {
		t.Fatalf("%d requests: %+v", len(got), got)
	}
	for i, w := range want {
		if g := got[i]; g.Service != w.Service || g.Method != w.Method || g.Path != w.Path || g.Status != w.Status || g.Query.Encode() != w.Query.Encode() {
			t.Errorf("request %d: %+v, want %+v", i, g, w)
		}
	}
	if n := sim.Count("volume", ""); n != 3 {
		t.Errorf("%d requests counted, want 3", n)
	}
	if n := sim.Mutations(); n != 1 {
		t.Errorf("%d mutations counted, want 1", n)
	}
}

// hookTests are what a hook may do to the creation of a volume.
var hookTests = []struct {
	name  string
	hook  func(ossim.Mutation)
	fails bool
	made  int // volumes afterwards
}{
	{"nothing", func(ossim.Mutation) {}, false, 1},
	{"fail before", func(m ossim.Mutation) {
		if !m.After {
			m.Fail(http.StatusConflict, "no")
		}
	}, true, 0},
	{"fail after", func(m ossim.Mutation) {
		if m.After {
			m.Fail(http.StatusInternalServerError, "no")
		}
	}, true, 1},
	{"drop before", func(m ossim.Mutation) {
		if !m.After {
			m.Drop()
		}
	}, true, 0},
	{"drop after", func(m ossim.Mutation) {
		if m.After && m.Status == http.StatusAccepted {
			m.Drop()
		}
	}, true, 1},
}

func TestHooks(t *testing.T) {
	for _, tt := range hookTests {
		t.Run(tt.name, func(t *testing.T) {
			sim := ossim.ForTest(t)
			c := serviceClient(t, sim, openstack.NewBlockStorageV3)
			var calls atomic.Int32
			remove := sim.OnMutation(func(m ossim.Mutation) {
				calls.Add(1)
				if m.Service != "volume" || m.Method != http.MethodPost || m.Path != "/volumes" || len(m.Body) == 0 {
					t.Errorf("mutation %+v", m)
				}
				_ = sim.Snapshot() // hooks may use the simulator
				tt.hook(m)
			})
			_, err := volumes.Create(t.Context(), c, volumes.CreateOpts{Size: 1}, nil).Extract()
			if (err != nil) != tt.fails {
				t.Errorf("got %v", err)
			}
			if n := len(sim.Snapshot().Volumes); n != tt.made {
				t.Errorf("%d volumes made, want %d", n, tt.made)
			}
			listVolumes(t, c, volumes.ListOpts{})
			before := calls.Load()
			remove()
			if _, err := volumes.Create(t.Context(), c, volumes.CreateOpts{Size: 1}, nil).Extract(); err != nil {
				t.Errorf("without the hook: %v", err)
			}
			if calls.Load() != before {
				t.Error("the hook was called after its removal")
			}
		})
	}
}
