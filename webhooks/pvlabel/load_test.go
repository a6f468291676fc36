package pvlabel_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// startDecorated is startOpenStack with what the program puts around the provider.
func startDecorated(t *testing.T) (*ossim.Sim, *pvlabel.Handler) {
	t.Helper()
	sim := ossim.ForTest(t)
	p, _, err := openstack.New(t.Context(), sim.ConfFile(t, ""), cloud.Options{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := decorate.New(p, caller.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return sim, pvlabel.New(d.Volumes, admissionregistrationv1.Ignore)
}

// TestCallsPerVolume: a thousand PersistentVolumes of distinct volumes by fifty clients cost
// no more than one call to the cloud each.
func TestCallsPerVolume(t *testing.T) {
	const clients, each = 50, 20
	sim, h := startDecorated(t)
	var ids [clients][each]string
	for c := range ids {
		for k := range ids[c] {
			ids[c][k] = sim.AddVolume("v", "az1").ID
		}
	}
	ask(t.Context(), t, h, static("first", ids[0][0])) // logs in
	sim.ResetRequests()
	var done sync.WaitGroup
	for c := range ids {
		done.Go(func() {
			for k, id := range ids[c] {
				resp := h.Handle(t.Context(), createRequest(fmt.Sprintf("pv-%d-%d", c, k), cinderPV(id)))
				if !resp.Allowed || len(resp.Patches) == 0 || len(resp.Warnings) > 0 {
					t.Errorf("volume %s: %+v", id, resp)
				}
			}
		})
	}
	done.Wait()
	n := sim.Count("", "")
	t.Logf("%d calls for %d volumes", n, clients*each)
	if n > clients*each {
		t.Errorf("%d calls for %d volumes", n, clients*each)
	}
}

// TestSlowCloud: 400 creations at once while the cloud does not answer are each answered
// when their time is up, with a warning, by few calls, and nothing is left of them.
func TestSlowCloud(t *testing.T) {
	sim, h := startDecorated(t)
	ids := make([]string, 400)
	for k := range ids {
		ids[k] = sim.AddVolume("v", "az1").ID
	}
	ask(t.Context(), t, h, static("first", ids[0])) // logs in
	time.Sleep(50 * time.Millisecond)
	before := runtime.NumGoroutine()
	undo := sim.AddFault(ossim.Fault{Service: "volume", Hang: true})
	defer undo()
	sim.ResetRequests()
	const limit = time.Second // hanging calls end with it, or never
	var silent atomic.Int64
	var done sync.WaitGroup
	for k, id := range ids {
		done.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			resp := h.Handle(ctx, createRequest(fmt.Sprintf("pv-%d", k), cinderPV(id)))
			if !resp.Allowed || len(resp.Warnings) != 1 || !strings.Contains(resp.Warnings[0], "the cloud did not answer in time") {
				silent.Add(1)
			}
		})
	}
	done.Wait()
	if silent.Load() > 0 {
		t.Errorf("%d answers did not say that the cloud did not answer in time", silent.Load())
	}
	if n := sim.Count("volume", ""); n > len(ids)/4 {
		t.Errorf("%d calls to a cloud that does not answer, for %d volumes", n, len(ids))
	}
	undo()
	eventually.NoError(t, func() error {
		if after := runtime.NumGoroutine(); after > before+10 { // idle connections
			return fmt.Errorf("%d goroutines before, %d after", before, after)
		}
		return nil
	})
	if resp, _ := ask(t.Context(), t, h, static("later", ids[0])); !resp.Allowed || len(resp.Patch) == 0 {
		t.Errorf("after the cloud has come back: %+v", resp)
	}
}
