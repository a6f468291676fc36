package integration

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// tagsOnly is how many calls added a tag to a router; all other changes fail the test.
func tagsOnly(t *testing.T, sim *ossim.Sim) int {
	t.Helper()
	n := 0
	for _, r := range sim.Requests() {
		switch {
		case r.Method == http.MethodGet || r.Service == "identity":
		case r.Method == http.MethodPut && strings.HasPrefix(r.Path, "/routers/") && strings.Contains(r.Path, "/tags/"):
			n++
		default:
			t.Errorf("%s %s %s while routes are only taken over", r.Service, r.Method, r.Path)
		}
	}
	return n
}

// Routes that another cloud controller manager has made become the cluster's by a tag and no
// other change; they go with their Node, also when the process was restarted in between.
// Routes of operators stay, inside the pod CIDRs and outside, and one that competes with a
// Node's own is told about. When all Nodes are gone at once their routes wait for an operator.
func TestComplaint3128OperatorRoutesStay(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 4, NamePrefix: "node-"})
	octets := servers[0].Addresses[0].As4()
	octets[3] = 250
	appliance := " via " + netip.AddrFrom4(octets).String()
	operators := []string{
		"10.244.200.0/24 via " + servers[1].Addresses[0].String(), // to a Node, not for its CIDR
		"10.244.201.0/24" + appliance, "198.51.100.0/24" + appliance,
		podCIDR(3) + appliance, // competes with a Node's own
	}
	theirs := map[string]string{}
	for i, s := range servers[:3] {
		theirs[s.Name] = routeTo(i, s)
	}
	addRoutes(t, sim, append(slices.Collect(maps.Values(theirs)), operators...)...)
	c.register(servers[:3], func(i int) nodeState {
		return nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(i)}}
	})
	sim.ResetRequests()
	start := func() *running { return c.startCCM(sim, "--leader-elect=false", "--controllers=route") }
	r := start()
	c.wantNetworks(3)
	eventually.Met(t, func() string {
		if n := tagsOnly(t, sim); n != 3 {
			return "not three records"
		}
		return ""
	})
	<-time.After(time.Second) // several passes
	if n := tagsOnly(t, sim); n != 3 {
		t.Errorf("%d tags were added for 3 routes", n)
	}
	if missing := wantRoutes(sim, append(slices.Collect(maps.Values(theirs)), operators...)...)(); missing != "" {
		t.Error(missing)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), servers[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	delete(theirs, servers[0].Name)
	start()
	eventually.Met(t, wantRoutes(sim, append(slices.Collect(maps.Values(theirs)), operators...)...))

	c.create(nodeOf(servers[3], nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(3)}}))
	theirs[servers[3].Name] = routeTo(3, servers[3])
	eventually.Met(t, func() string {
		if events := c.eventsOf(servers[3].Name); !strings.Contains(events, "Somebody else's route leads "+podCIDR(3)) {
			return "no event about the competing route: " + events
		}
		return wantRoutes(sim, append(slices.Collect(maps.Values(theirs)), operators...)...)()
	})
	if err := c.client.CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string { return c.routesHeld("not one of the 3 routes leads to a node") })
	if missing := wantRoutes(sim, append(slices.Collect(maps.Values(theirs)), operators...)...)(); missing != "" {
		t.Error(missing)
	}
	release(t, c.client, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	eventually.Met(t, wantRoutes(sim, operators...))
}

// routesHeld says what is missing of the Event about routes that are kept for the reason.
func (c *cluster) routesHeld(reason string) string {
	events, err := c.client.CoreV1().Events("").List(c.t.Context(), metav1.ListOptions{FieldSelector: "reason=RouteRemovalHeld"})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "Namespace" && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, reason) && strings.Contains(e.Message, options.DeleteNodesUntil) {
			return ""
		}
	}
	return fmt.Sprintf("no Event says that routes are kept because of %q: %v", reason, events.Items)
}

// wantNetworks waits until that many Nodes say that their network is available.
func (c *cluster) wantNetworks(count int) {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		n := 0
		for _, node := range c.nodes() {
			if slices.ContainsFunc(node.Status.Conditions, func(x corev1.NodeCondition) bool {
				return x.Type == corev1.NodeNetworkUnavailable && x.Status == corev1.ConditionFalse
			}) {
				n++
			}
		}
		if n != count {
			return "Nodes do not say that their networks are available"
		}
		return ""
	})
}

// With its watch-based gate the framework's controller forgets a route that failed until some
// Node changes. Here it is tried again in the next pass, gate or not, and the Node says why.
func TestComplaintWatchBasedGateSwallowsRouteErrors(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})
	remove := sim.AddFault(ossim.Fault{Service: "network", Method: "PUT", Path: "/routers/*/add_extraroutes", Status: 500})
	c.register(servers, always(nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(1)}}))
	c.startCCM(sim, "--leader-elect=false", "--controllers=route", "--feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true")
	eventually.Met(t, func() string {
		if events := c.eventsOf(servers[0].Name); !strings.Contains(events, "Could not create route to "+podCIDR(1)) {
			return "no event about the failure: " + events
		}
		return ""
	})
	remove()
	eventually.Met(t, wantRoutes(sim, routeTo(1, servers[0])))
	c.wantNetworks(1)
}
