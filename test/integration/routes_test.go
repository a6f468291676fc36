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

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func routesOf(sim *ossim.Sim) []string {
	var out []string
	for _, r := range sim.Snapshot().Routes {
		out = append(out, r.Name)
	}
	slices.Sort(out)
	return out
}

func wantRoutes(sim *ossim.Sim, want ...string) func() string {
	slices.Sort(want)
	return func() string {
		if got := routesOf(sim); !slices.Equal(got, want) {
			return fmt.Sprintf("routes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return ""
	}
}

func podCIDR(i int) string { return fmt.Sprintf("10.244.%d.0/24", i) }

func routeTo(i int, s ossim.Server) string { return podCIDR(i) + " via " + s.Addresses[0].String() }

func TestRoutes(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 30, NamePrefix: "node-"})
	c.register(servers, func(i int) nodeState {
		return nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(i)}}
	})
	all := map[string]string{}
	for i, s := range servers {
		all[s.Name] = routeTo(i, s)
	}
	c.startCCM(sim, "--leader-elect=false", "--controllers=route")
	eventually.Met(t, wantRoutes(sim, slices.Collect(maps.Values(all))...))
	eventually.Met(t, func() string {
		for name, n := range c.nodes() {
			if k := slices.IndexFunc(n.Status.Conditions, func(x corev1.NodeCondition) bool { return x.Type == corev1.NodeNetworkUnavailable }); k < 0 || n.Status.Conditions[k].Status != corev1.ConditionFalse {
				return name + " does not say that its network is available"
			}
		}
		return ""
	})
	sets := 0
	for _, r := range sim.Requests() {
		if strings.HasSuffix(r.Path, "/add_extraroutes") {
			sets++
		}
	}
	if sets < 1 || sets > 3 {
		t.Errorf("30 routes took %d changes of the router's table: concurrent changes are not one set", sets)
	}

	t.Run("idle", func(t *testing.T) {
		eventually.Met(t, func() string { // so many are recorded after they are made
			if n := records(sim); n != len(servers) {
				return fmt.Sprintf("%d of %d routes are recorded", n, len(servers))
			}
			return ""
		})
		sim.ResetRequests()
		eventually.Met(t, func() string {
			if sim.Count("network", "GET") < 3 {
				return "the route controller does not look at the cloud"
			}
			return ""
		})
		if n := sim.Mutations(); n > 0 {
			t.Errorf("%d mutating calls without a change: %v", n, sim.Requests())
		}
	})

	t.Run("an operator's routes", func(t *testing.T) {
		octets := servers[0].Addresses[0].As4()
		octets[3] = 250
		appliance := " via " + netip.AddrFrom4(octets).String()
		operators := []string{"10.244.200.0/24 via " + servers[1].Addresses[0].String(), "10.244.201.0/24" + appliance, "198.51.100.0/24" + appliance}
		addRoutes(t, sim, operators...)
		<-time.After(time.Second) // several passes
		want := append(slices.Collect(maps.Values(all)), operators...)
		if missing := wantRoutes(sim, want...)(); missing != "" {
			t.Error(missing)
		}
		removeRoutes(t, sim, operators...)
	})

	t.Run("a route is lost", func(t *testing.T) {
		removeRoutes(t, sim, all[servers[2].Name])
		eventually.Met(t, wantRoutes(sim, slices.Collect(maps.Values(all))...))
	})

	t.Run("a Node goes", func(t *testing.T) {
		if err := c.client.CoreV1().Nodes().Delete(t.Context(), servers[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		delete(all, servers[0].Name)
		eventually.Met(t, wantRoutes(sim, slices.Collect(maps.Values(all))...))
	})

	t.Run("a Node comes back with another CIDR", func(t *testing.T) {
		c.create(nodeOf(servers[0], nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(100)}}))
		all[servers[0].Name] = routeTo(100, servers[0])
		eventually.Met(t, wantRoutes(sim, slices.Collect(maps.Values(all))...))
	})
}

// records is how many calls recorded a route.
func records(sim *ossim.Sim) int {
	n := 0
	for _, r := range sim.Requests() {
		if r.Method == http.MethodPut && strings.HasPrefix(r.Path, "/routers/") && strings.Contains(r.Path, "/tags/") {
			n++
		}
	}
	return n
}

// A Node that waits to be initialized has no network, but that is nothing to warn about; a
// Node that is initialized without an address is.
func TestRoutesOfNewNodes(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "fresh-"})
	c.register(servers[:1], always(nodeState{podCIDRs: []string{podCIDR(1)}}))
	lost := nodeOf(servers[1], nodeState{initialized: true, podCIDRs: []string{podCIDR(2)}})
	lost.Status.Addresses = nil
	c.create(lost)
	c.startCCM(sim, "--leader-elect=false", "--controllers=route")
	eventually.Met(t, func() string {
		if events := c.eventsOf(servers[1].Name); !strings.Contains(events, "has no InternalIP") {
			return "no warning about the Node without addresses: " + events
		}
		for name, n := range c.nodes() {
			if k := slices.IndexFunc(n.Status.Conditions, func(x corev1.NodeCondition) bool { return x.Type == corev1.NodeNetworkUnavailable }); k < 0 || n.Status.Conditions[k].Status != corev1.ConditionTrue {
				return name + " does not say that its network is unavailable"
			}
		}
		return ""
	})
	<-time.After(time.Second) // several passes
	if events := c.eventsOf(servers[0].Name); events != "" {
		t.Errorf("a Node that is only new has events: %s", events)
	}
}
