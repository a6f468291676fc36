package integration

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// takeover is a cluster, and its cloud, as openstack-cloud-controller-manager has left them.
type takeover struct {
	*play.Player
	c        *cluster
	sim      *ossim.Sim
	services []types.NamespacedName
	routes   []string // of Nodes
}

// newTakeover makes what was recorded of two Services on one load balancer and of an internal one, and routes, which the
// recordings do not have.
func newTakeover(c *cluster, sim *ossim.Sim) *takeover {
	t := c.t
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const dir, phase = "../differential/openstack/testdata", 1
	group, recorded, err := recording.Of(dir, "sh-plain")
	must(err)
	internal, more, err := recording.Of(dir, "s-ip-internal")
	must(err)
	group.Scenarios = append(group.Scenarios, internal.Scenarios...)
	maps.Copy(recorded.States, more.States)
	place, err := play.Make(t.Context(), group.World, sim, len(group.Nodes))
	must(err)
	o := &takeover{Player: play.New(group, place, c.client), c: c, sim: sim}
	t.Cleanup(func() {
		if err := o.Clean(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	o.services, err = o.Restore(t.Context(), recorded, phase)
	must(err)
	for i := range group.Nodes {
		node := fmt.Sprintf("node%d", i)
		patch := fmt.Sprintf(`{"spec":{"podCIDR":%q,"podCIDRs":[%[1]q]}}`, podCIDR(i))
		_, err := c.client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		must(err)
		o.routes = append(o.routes, podCIDR(i)+" via "+place.Symbols.Value(node))
		pairs := []ports.AddressPair{{IPAddress: podCIDR(i)}}
		must(ports.Update(t.Context(), place.Cloud.Network, place.Symbols.Value(node+".port"), ports.UpdateOpts{AllowedAddressPairs: &pairs}).Err)
	}
	addRoutes(t, sim, o.routes...)
	return o
}

// state is what the cloud holds, without the owner's marks.
func (o *takeover) state() map[string]*snapshot.State {
	o.c.t.Helper()
	all, err := o.Place.Cloud.Read(o.c.t.Context(), o.Place.Symbols, o.Group.Names())
	if err != nil {
		o.c.t.Fatal(err)
	}
	for _, s := range all {
		for _, lb := range s.LoadBalancers {
			if tags, _ := lb["tags"].([]any); len(tags) > 0 && strings.HasPrefix(fmt.Sprint(tags[0]), "isthmus-cluster=") {
				lb["tags"] = tags[1:]
			}
		}
	}
	return all
}

func (o *takeover) mutations() []string {
	var out []string
	for _, r := range o.sim.Requests() {
		if r.Method != http.MethodGet && r.Service != "identity" {
			out = append(out, r.Service+" "+r.Method+" "+r.Path)
		}
	}
	return out
}

// ensured waits until the Services have been ensured and the routes compared, by the requests
// since the last reset and the events, which it removes.
func (o *takeover) ensured() {
	t := o.c.t
	t.Helper()
	eventually.Met(t, func() string {
		for _, s := range o.services {
			list, err := o.c.client.CoreV1().Events(s.Namespace).List(t.Context(), listOf(s.Name))
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprint(list.Items); !strings.Contains(text, "EnsuredLoadBalancer") {
				return fmt.Sprintf("Service %s: %s", s, text)
			}
		}
		reads := 0
		for _, r := range o.sim.Requests() {
			if r.Method == http.MethodGet && strings.Contains(r.Path, "/routers/") {
				reads++
			}
		}
		if reads < 3 {
			return "the routes have not been compared three times yet"
		}
		return ""
	})
	for _, s := range o.services {
		if err := o.c.client.CoreV1().Events(s.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Swapping openstack-cloud-controller-manager for ours changes nothing in the cloud but our
// owner's marks, so that it can take back; from then on what it made is ours to maintain.
func TestTakeoverOfACluster(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t, ossim.Options{Jobboard: true})
	o := newTakeover(c, sim)
	operators := "10.244.200.0/24 via " + o.Place.Symbols.Value("node0")
	addRoutes(t, sim, operators)

	before := o.state()
	sim.ResetRequests()
	r := c.startCCM(sim)
	o.ensured()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	marks := map[string]int{}
	for _, lb := range sim.LoadBalancers() {
		marks["load-balancer PUT /lbaas/loadbalancers/"+lb.ID] = 1
	}
	routeMarks := len(o.routes)
	for _, m := range o.mutations() {
		if strings.HasPrefix(m, "network PUT /routers/"+sim.Defaults().RouterID+"/tags/isthmus-") {
			routeMarks--
			continue
		}
		if marks[m]--; marks[m] < 0 {
			t.Errorf("taking over made the call %s", m)
		}
	}
	for m, missing := range marks {
		if missing > 0 {
			t.Errorf("taking over did not make the call %s", m)
		}
	}
	if routeMarks != 0 {
		t.Errorf("%d routes of Nodes were not marked, or marked twice", routeMarks)
	}
	if diff := cmp.Diff(before, o.state()); diff != "" {
		t.Errorf("the cloud has changed:\n%s", diff)
	}

	sim.ResetRequests()
	c.startCCM(sim)
	o.ensured()
	if got := o.mutations(); len(got) > 0 {
		t.Errorf("after a restart it made the calls %q", got)
	}

	// A Node and the Services go: all that OCCM made for them goes, and nothing else.
	sim.DeleteServer(o.Place.Symbols.Value("node1.id"))
	c.setReady("node1", corev1.ConditionFalse)
	eventually.Met(t, wantRoutes(sim, o.routes[0], operators))
	for _, s := range o.services {
		if err := c.client.CoreV1().Services(s.Namespace).Delete(t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Met(t, func() string {
		if s := sim.Snapshot(); len(sim.LoadBalancers()) > 0 || len(s.FloatingIPs) > 0 {
			return fmt.Sprintf("left are the load balancers %v and the floating IPs %v", sim.LoadBalancers(), s.FloatingIPs)
		}
		return ""
	})
}
