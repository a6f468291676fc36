package octavia

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// TestComplaint3102SameNamedClusters: a second cluster of the same name has a Service of the
// same name. Whichever comes second gets nothing of the first's, changes and deletes nothing.
func TestComplaint3102SameNamedClusters(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	before := x.objects()
	other := x.service("web", nil)
	other.Cluster.UID = "ffffffff-0000-4000-8000-000000000002"
	named := x.service("web", cloud.Settings{plan.AnnLoadBalancerID: x.spec.Settings[plan.AnnLoadBalancerID], plan.AnnAddress: x.spec.Settings[plan.AnnAddress]})
	named.Cluster.UID = other.Cluster.UID
	x.restart()
	for _, spec := range []*cloud.LoadBalancerSpec{other, named} {
		if _, err := x.lbs.Ensure(testContext(t), spec); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("Ensure: %v, want KindConflict", err)
		}
		if err := x.lbs.UpdateMembers(testContext(t), spec); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("UpdateMembers: %v, want KindConflict", err)
		}
		if err := x.lbs.Delete(testContext(t), spec); err != nil {
			t.Errorf("Delete: %v, want nil: nothing of it is there", err)
		}
	}
	if after := x.objects(); !slices.Equal(before, after) || x.sim.Mutations() != 0 {
		t.Errorf("objects %q became %q with %d changing calls", before, after, x.sim.Mutations())
	}
}

// TestComplaintForeignListenerTags: tags that others have put on our listener stay when it is changed.
func TestComplaintForeignListenerTags(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	o := x.op()
	l := x.tree(x.spec).Listeners[0]
	tags := append(slices.Clone(l.Tags), "billing=team-a")
	time.Sleep(1100 * time.Millisecond) // Octavia's timestamps have seconds
	if err := listeners.Update(testContext(t), o.octavia, l.ID, listeners.UpdateOpts{Tags: &tags}).Err; err != nil {
		t.Fatal(err)
	}
	if _, err := o.waitActive(testContext(t), x.spec.Settings[plan.AnnLoadBalancerID]); err != nil {
		t.Fatal(err)
	}
	x.spec.Settings[plan.AnnTimeoutClient] = "1000"
	x.ensure(x.spec)
	got := x.tree(x.spec).Listeners[0]
	if !sameTags(got.Tags, tags) || got.Timeouts.Client != 1000 {
		t.Errorf("listener %+v, want tags %q and the new timeout", got, tags)
	}
}

// TestComplaintUninterruptibleWaits: an operation that waits for Octavia ends with its context.
func TestComplaintUninterruptibleWaits(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{OctaviaDelay: time.Hour}, 1, "")
	x.lbs.waits = waits{first: 10 * time.Minute, most: time.Hour, total: time.Hour, brief: time.Hour}
	ctx, cancel := context.WithCancel(testContext(t))
	stopped := errors.New("the process stops")
	ctx, stop := context.WithCancelCause(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := x.lbs.Ensure(ctx, x.spec)
		done <- err
	}()
	for x.sim.Count("load-balancer", http.MethodPost) == 0 {
		time.Sleep(time.Millisecond)
	}
	stop(stopped)
	if err := eventually.Received(t, "Ensure ends", done); !errors.Is(err, stopped) && !errors.Is(err, context.Canceled) {
		t.Errorf("Ensure: %v, want that it was stopped", err)
	}
}

// TestOtherProviderConfigured: load balancers that are there stay as they are when cloud.conf
// names another provider for new ones.
func TestOtherProviderConfigured(t *testing.T) {
	for _, providers := range [][2]string{{"amphora", "ovn"}, {"ovn", "amphora"}} {
		x := newLBTest(t, 1, "lb-provider="+providers[0]+"\n")
		x.ensure(x.spec)
		x.conf = "lb-provider=" + providers[1] + "\n"
		x.restart()
		x.ensure(x.spec)
		if n := x.sim.Mutations(); n != 0 {
			t.Errorf("%s, with %s configured: %d changing calls", providers[0], providers[1], n)
		}
	}
}
