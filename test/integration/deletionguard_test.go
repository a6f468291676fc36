package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// keptNodes checks that the guard holds n Nodes and says so everywhere.
func (c *cluster) keptNodes(r *running, servers []ossim.Server, n int, reason string) string {
	c.wantUntouched(c.t, namesOf(servers), nil)
	status, body := r.get("/readyz", "")
	// The leader stays ready, or its webhooks would not be called any more.
	want := fmt.Sprintf("[!]node-deletion warns: %d nodes whose instances were not found are kept", n)
	if status != http.StatusOK || !strings.Contains(body, want) {
		return fmt.Sprintf("/readyz: %d %s, want %s", status, body, want)
	}
	events, err := c.client.CoreV1().Events("").List(c.t.Context(), metav1.ListOptions{FieldSelector: "reason=NodeDeletionHeld"})
	if err != nil {
		c.t.Fatal(err)
	}
	on := map[string]int{}
	for _, e := range events.Items {
		if strings.Contains(e.Message, reason) && e.Type == corev1.EventTypeWarning {
			on[e.InvolvedObject.Kind]++
		}
	}
	if on["Namespace"] != 1 || on["Node"] < 1 || on["Node"] > 3 {
		return fmt.Sprintf("Events because of %q: %v, want one on the Namespace and one to three on Nodes", reason, on)
	}
	return ""
}

// release annotates kube-system until the end of the test.
func release(t *testing.T, client kubernetes.Interface, value string) {
	t.Helper()
	annotate := func(ctx context.Context, value string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, options.DeleteNodesUntil, value)
		if _, err := client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceSystem, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
	annotate(t.Context(), fmt.Sprintf("%q", value))
	t.Cleanup(func() { annotate(context.Background(), "null") })
}

// left says how many Nodes there are unless they are as many as wanted.
func (c *cluster) left(want int) func() string {
	return func() string {
		if n := len(c.nodes()); n != want {
			return fmt.Sprintf("%d Nodes, want %d", n, want)
		}
		return ""
	}
}

// wantHeld checks that the guard holds every Node at no more than three calls a cycle, until
// an operator releases it.
func (c *cluster) wantHeld(r *running, sim *ossim.Sim, servers []ossim.Server, reason string) {
	t := c.t
	t.Helper()
	eventually.Met(t, func() string { return c.keptNodes(r, servers, len(servers), reason) })
	sim.ResetRequests()
	began := time.Now()
	<-time.After(3 * time.Second)
	c.wantUntouched(t, namesOf(servers), nil)
	n := sim.Count("compute", "") + sim.Count("network", "")
	if cycles := 2 + int(time.Since(began)/(500*time.Millisecond)); n > 3*cycles+3 {
		t.Errorf("%d calls in at most %d cycles and a node status round, want at most 3 a cycle", n, cycles)
	}
	release(t, c.client, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	eventually.Met(t, c.left(0))
	eventually.Met(t, func() string {
		if _, body := r.get("/readyz", ""); body != "ok" {
			return "/readyz: " + body
		}
		return ""
	})
}

// Credentials of another project or region make every read a 404. Not one Node goes, whatever
// the size of the cluster, until an operator says so.
func TestComplaintNodesStayWhenCredentialsAreAnotherProjects(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 30} {
		t.Run(fmt.Sprintf("%d nodes", count), func(t *testing.T) {
			c, sim, other := newCluster(t), ossim.ForTest(t), ossim.ForTest(t)
			servers := sim.SeedServers(ossim.Seed{Count: count, NamePrefix: "node-"})
			other.SeedServers(ossim.Seed{Count: 4, NamePrefix: "web-"})
			c.register(servers, always(nodeState{initialized: true}))
			r := c.startFastCCM(other, "--leader-elect=false", "--controllers=cloud-node-lifecycle,cloud-node", "--node-monitor-period=500ms")
			c.wantHeld(r, other, servers, "no instance of this cluster was seen in project ")
		})
	}
}

// The other project has servers of the same names. A new Node is not initialized with one of
// them, and the Nodes that are there, few as they are, stay; also when the process starts anew.
func TestNodesStayWhenAnotherProjectHasTheirNames(t *testing.T) {
	c, sim, other := newCluster(t), ossim.ForTest(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-"})
	c.register(servers, func(i int) nodeState { return nodeState{initialized: i < 2} })
	other.SeedServers(ossim.Seed{Count: 4, NamePrefix: "node-"})
	for range 2 {
		other.ResetRequests()
		r := c.startFastCCM(other, "--leader-elect=false", "--controllers=cloud-node-lifecycle,cloud-node", "--node-monitor-period=500ms", "--node-deletion-settle-time=10s")
		eventually.Met(t, func() string {
			if n := other.Count("compute", ""); n < 10 {
				return fmt.Sprintf("%d requests", n)
			}
			return ""
		})
		<-time.After(2 * time.Second)
		c.wantUntouched(t, namesOf(servers), nil)
		if id := c.nodes()[servers[2].Name].Spec.ProviderID; id != "" {
			t.Errorf("the new Node got another project's server %s", id)
		}
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}
	c.startFastCCM(sim, "--leader-elect=false", "--controllers=cloud-node-lifecycle,cloud-node", "--node-monitor-period=500ms")
	eventually.Met(t, func() string { return c.initialized(servers[2:]) })
	c.wantUntouched(t, namesOf(servers), nil)
}

// Nova forgets all servers, in the right project: a database restored from nothing.
func TestComplaintNodesStayWhenNovaForgetsAllServers(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 30, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true}))
	r := c.startFastCCM(sim, "--leader-elect=false", "--controllers=cloud-node-lifecycle,cloud-node", "--node-monitor-period=500ms")
	eventually.Met(t, func() string {
		for _, q := range sim.Requests() {
			if q.Service == "compute" && q.Status == http.StatusOK {
				return ""
			}
		}
		return "no answer that has the servers yet"
	})
	for _, s := range servers {
		sim.DeleteServer(s.ID)
	}
	c.wantHeld(r, sim, servers, "30 of 30 nodes have no instance, more than the limit of 13")
}

// A large loss in the right project is believed after a while, because the rest is seen.
func TestNodesGoWhenALargeLossHasLasted(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	settle := max(100*time.Second, fast*40*c.measureLease().pace) // so long that the test sees the Nodes kept
	servers := sim.SeedServers(ossim.Seed{Count: 20, NamePrefix: "node-"})
	c.register(servers, func(i int) nodeState { return nodeState{initialized: true, ready: i >= 12} })
	for _, s := range servers[:12] {
		sim.DeleteServer(s.ID)
	}
	release(t, c.client, "tomorrow") // no time: the Event says so
	r := c.startFastCCM(sim, "--leader-elect=false", "--controllers=cloud-node-lifecycle", "--node-monitor-period=500ms", "--node-deletion-settle-time="+settle.String())
	eventually.Met(t, func() string {
		return c.keptNodes(r, servers, 12, `12 of 20 nodes have no instance, more than the limit of 9; annotation isthmus-cloud.github.io/delete-nodes-until of namespace kube-system: "tomorrow" is not a time`)
	})
	eventually.Met(t, c.left(8))
}

// Two of three servers are really gone, as they are after a scale-down: their Nodes go. The last
// one goes when an operator says so.
func TestNodesGoWhenSomeServersAreDeleted(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true}))
	r := c.startFastCCM(sim, "--leader-elect=false", "--controllers=cloud-node-lifecycle", "--node-monitor-period=500ms")
	sim.DeleteServer(servers[0].ID)
	sim.DeleteServer(servers[1].ID)
	eventually.Met(t, c.left(1))
	sim.DeleteServer(servers[2].ID)
	c.wantHeld(r, sim, servers[2:], "no instance of the cluster is seen now (nodes: 1)")
}
