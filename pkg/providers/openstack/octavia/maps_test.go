package octavia

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// entries counts what the maps hold that v reaches, by their path.
func entries(v reflect.Value, path string, out map[string]int) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			entries(v.Elem(), path, out)
		}
	case reflect.Map:
		out[path] += v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "c" && f.Name != "now" && f.Name != "notify" && f.Name != "lookUps" && f.Name != "fips" { // the client is everybody's, and shared reads end a little after their answer
				entries(v.Field(i), path+"."+f.Name, out)
			}
		}
	default:
	}
}

// TestNothingIsRememberedOfDeletedServices: whatever became of them before. A new map of
// LoadBalancers is found here by itself.
func TestNothingIsRememberedOfDeletedServices(t *testing.T) {
	for _, conf := range []string{"", managed} {
		x := newLBTest(t, 1, conf)
		t.Cleanup(func() { logCalls(t, x.sim) })
		now := time.Now()
		x.lbs.now = func() time.Time { return now }
		var all []*cloud.LoadBalancerSpec
		for i := range 12 {
			spec := x.sharer(fmt.Sprint("s", i), "", 80)
			if i%4 == 1 {
				spec = x.sharer(fmt.Sprint("s", i), all[i-1].Settings[plan.AnnLoadBalancerID], 81)
			}
			x.ensure(spec)
			spec.Verify = i%2 == 0
			spec.Ports[0].NodePort++
			x.ensure(spec)
			all = append(all, spec)
		}
		o := x.op()
		if err := o.deleteLB(testContext(t), x.lb(all[2].Settings[plan.AnnLoadBalancerID])); err != nil {
			t.Fatal(err)
		}
		lost := x.sharer("lost", "", 80)
		remove := x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Path: "/lbaas/loadbalancers", Reset: true})
		if _, err := x.lbs.Ensure(testContext(t), lost); err == nil {
			t.Fatal("the creation's answer is not lost")
		}
		remove()
		if err := x.lbs.Delete(testContext(t), lost); cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Errorf("Delete while the creation may be under way: %v, want KindRetryAfter", err)
		}
		x.lbs.repairs.Put(all[0].UID, []string{"create listener"}, now, now.Add(time.Minute))
		now = now.Add(time.Hour)
		for _, spec := range append(all, lost) {
			x.delete(spec)
		}
		x.wantNothing("after all are deleted")
		if n := x.lbs.waiter().Len(); n > 0 {
			t.Errorf("%d waits are left of deleted Services", n)
		}
		for x.lbs.groups().Pending() > 0 {
			time.Sleep(time.Millisecond)
		}
		left := map[string]int{}
		entries(reflect.ValueOf(x.lbs), "", left)
		if len(left) < 6 {
			t.Fatalf("only the maps %v are looked at: this test checks nothing", left)
		}
		for path, n := range left {
			bounded := path == ".subnets.byID" || path == ".formerGroups.entries" || path == ".renamed.entries" || path == ".snapshots.entries"
			if n > 0 && !bounded {
				t.Errorf("%s: %d entries are left of %d deleted Services", path, n, len(all))
			}
		}
	}
}

// TestLostCreationIsAwaitedByTheDeletion: the load balancer appears after its Service was
// deleted; it goes all the same.
func TestLostCreationIsAwaitedByTheDeletion(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Path: "/lbaas/loadbalancers", Reset: true, Times: 1})
	if _, err := x.lbs.Ensure(testContext(t), x.spec); err == nil {
		t.Fatal("the answer is not lost")
	}
	if err := x.lbs.Delete(testContext(t), x.spec); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("Delete: %v, want KindRetryAfter until the load balancer would be there", err)
	}
	other := &lbTest{t: t, sim: x.sim, conf: x.conf, all: x.all}
	other.restart()
	if _, err := other.lbs.Ensure(testContext(t), x.spec); err != nil { // Octavia is done at last
		t.Fatal(err)
	}
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}
