package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// safetyCase is a cloud that does not tell the truth.
type safetyCase struct {
	name   string
	faults []ossim.Fault
	// expire makes the cloud forget all tokens too.
	expire bool
	// lists means that all lists lack the same servers, without any sign of it. All that is
	// known of a Node without a provider ID comes from lists: such Nodes may go.
	lists bool
	// service is where the faults show in the request log, at least that often.
	service string
	least   int
}

func safetyCases() []safetyCase {
	compute := func(f ossim.Fault) []ossim.Fault { f.Service = "compute"; return []ossim.Fault{f} }
	list := func(f ossim.Fault) []ossim.Fault {
		f.Service, f.Path = "compute", "/servers/detail"
		return []ossim.Fault{f}
	}
	const proxy = "<html><head><title>404 Not Found</title></head><body>nginx</body></html>"
	return []safetyCase{
		{name: "401", faults: compute(ossim.Fault{Status: 401}), service: "compute", least: 4},
		{name: "403", faults: compute(ossim.Fault{Status: 403}), service: "compute", least: 4},
		{name: "404 for the endpoint", faults: compute(ossim.Fault{Status: 404, Body: proxy}), service: "compute", least: 4},
		{name: "404 without a body", faults: compute(ossim.Fault{Status: 404, Body: " "}), service: "compute", least: 4},
		{name: "404 of the API's router", faults: compute(ossim.Fault{Status: 404, Body: `{"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"}`}), service: "compute", least: 4},
		{name: "429", faults: compute(ossim.Fault{Status: 429, RetryAfter: time.Second}), service: "compute", least: 4},
		{name: "500", faults: compute(ossim.Fault{Status: 500}), service: "compute", least: 4},
		{name: "503", faults: compute(ossim.Fault{Status: 503}), service: "compute", least: 4},
		{name: "200 with another body", faults: compute(ossim.Fault{Body: `{"hello": "world"}`}), service: "compute", least: 4},
		{name: "200 with no JSON", faults: compute(ossim.Fault{Body: "<html>login</html>"}), service: "compute", least: 4},
		{name: "empty list, direct reads true", faults: list(ossim.Fault{EmptyList: true}), service: "compute", least: 4},
		{name: "truncated page", faults: compute(ossim.Fault{Truncate: true}), service: "compute", least: 4},
		{name: "connection cut", faults: compute(ossim.Fault{Reset: true}), service: "compute", least: 4},
		{name: "no answer", faults: compute(ossim.Fault{Hang: true}), service: "compute", least: 4},
		{name: "Keystone down", expire: true, faults: []ossim.Fault{{Service: "identity", Status: 503}}, service: "identity", least: 1},
		{name: "Keystone refuses", expire: true, faults: []ossim.Fault{{Service: "identity", Status: 401}}, service: "identity", least: 1},
		{name: "short list, direct reads true", lists: true, faults: list(ossim.Fault{ShortList: true}), service: "compute", least: 4},
	}
}

// Whatever the cloud answers instead of the truth, the real framework deletes no Node and
// taints none as shut down.
func TestComplaintUnknownErrorDeletesNode(t *testing.T) {
	t.Parallel()
	for _, test := range safetyCases() {
		t.Run(test.name, func(t *testing.T) {
			c, sim := newCluster(t), ossim.ForTest(t)
			servers := sim.SeedServers(ossim.Seed{Count: bystanders + 2, NamePrefix: "node-"})
			c.register(servers, func(i int) nodeState { return nodeState{initialized: !byName(i)} })
			d := doubt{lost: map[string]bool{}, least: test.least, reset: sim.ResetRequests}
			for i, server := range servers {
				d.nodes = append(d.nodes, server.Name)
				if test.lists && byName(i) {
					d.lost[server.Name] = true
				}
			}
			d.start = func(args ...string) {
				c.startFastCCM(sim, args...)
				eventually.Met(t, asked(sim, "compute", 1))
			}
			d.asked = func() int { return sim.Count(test.service, "") }
			d.lie = func() (stop func()) {
				var removes []func()
				for _, f := range test.faults {
					removes = append(removes, sim.AddFault(f))
				}
				if test.expire {
					sim.ExpireTokens()
				}
				return func() {
					for _, remove := range removes {
						remove()
					}
				}
			}
			d.end = func() {
				sim.DeleteServer(servers[bystanders].ID)
				sim.StopServer(servers[bystanders+1].ID)
			}
			c.wantDoubt(t, &d)
		})
	}
}

// bystanders are more than one page of the batches' direct reads on OpenStack.
const bystanders = 60

// byName reports whether a Node is looked up by name: Nodes are deleted before they are initialized, too.
func byName(i int) bool { return i < bystanders && i%6 == 0 }

// doubt is a cloud that does not tell the truth for a while.
type doubt struct {
	// nodes are those of the bystanders, and two more: end lets the first one's machine be gone, and the other's be off.
	nodes []string
	end   func()
	// lost are Nodes that may be away.
	lost  map[string]bool
	start func(args ...string)
	lie   func() (stop func())
	// asked is how often that of the cloud which lies was asked since reset; least times, lies must have been told.
	asked func() int
	reset func()
	least int
}

// wantDoubt wants no Node to be deleted or tainted on a lie. Afterwards, a machine that is really gone and one that is
// really off show that it can fail.
func (c *cluster) wantDoubt(t *testing.T, d *doubt) {
	t.Helper()
	heard := func(least int) func() string {
		return func() string {
			c.wantUntouched(t, d.nodes, d.lost)
			if n := d.asked(); n < least {
				return fmt.Sprintf("the cloud was asked only %d times", n)
			}
			return ""
		}
	}
	d.start("--leader-elect=false", "--controllers=cloud-node-lifecycle", "--concurrent-node-lifecycle-syncs=20")
	eventually.Met(t, heard(1)) // so that the lies hit a running one
	d.reset()
	stop := d.lie()
	eventually.Met(t, heard(d.least))
	<-time.After(300 * time.Millisecond) // time for wrong conclusions
	c.wantUntouched(t, d.nodes, d.lost)
	stop()

	gone, off := d.nodes[bystanders], d.nodes[bystanders+1]
	d.lost[gone] = true
	d.end()
	eventually.Met(t, c.believed(gone, off))
	d.lost[off] = true
	c.wantUntouched(t, d.nodes, d.lost)
}

// believed says what is missing until the Node of a machine that is gone is gone, too, and that of one that is off is tainted.
func (c *cluster) believed(gone, off string) func() string {
	return func() string {
		nodes := c.nodes()
		switch n, ok := nodes[off]; {
		case nodes[gone].Name != "":
			return "the Node of a deleted machine is still there"
		case !ok:
			return "the Node of a machine that is off is gone"
		case !hasTaint(n, cloudproviderapi.TaintNodeShutdown):
			return "the Node of a machine that is off has no taint"
		}
		return ""
	}
}

// asked says how often a service was asked if it was less than least.
func asked(sim *ossim.Sim, service string, least int) func() string {
	return func() string {
		if n := sim.Count(service, ""); n < least {
			return fmt.Sprintf("%s was asked only %d times", service, n)
		}
		return ""
	}
}

// wantUntouched fails when a Node, save those in except, is gone or tainted.
func (c *cluster) wantUntouched(t *testing.T, names []string, except map[string]bool) {
	t.Helper()
	nodes := c.nodes()
	var deleted, tainted []string
	for _, name := range names {
		if except[name] {
			continue
		}
		if n, ok := nodes[name]; !ok {
			deleted = append(deleted, name)
		} else if hasTaint(n, cloudproviderapi.TaintNodeShutdown) {
			tainted = append(tainted, name)
		}
	}
	if len(deleted)+len(tainted) > 0 {
		t.Fatalf("deleted: %s; tainted as shut down: %s", strings.Join(deleted, ", "), strings.Join(tainted, ", "))
	}
}

// namesOf are the Nodes of servers.
func namesOf(servers []ossim.Server) []string {
	var out []string
	for _, s := range servers {
		out = append(out, s.Name)
	}
	return out
}

// Nodes of another cloud, of none, or that a label excludes, in the same cluster are left alone.
func TestForeignNodesAreLeftAlone(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true})) // the second shows that it is the right project
	foreign := []ossim.Server{{ID: "i-1", Name: "foreign-initialized"}, {ID: "i-2", Name: "foreign-tainted"}}
	for k, s := range foreign {
		n := nodeOf(s, nodeState{initialized: k == 0})
		n.Spec.ProviderID = "kind://docker/kind/" + s.ID
		c.create(n)
	}
	for k, name := range []string{"excluded-initialized", "excluded-tainted"} { // nothing else tells that they are none of the cloud's
		s := ossim.Server{Name: name}
		n := nodeOf(s, nodeState{initialized: k == 0})
		n.Spec.ProviderID, n.Labels = "", map[string]string{cloud.ExcludeNode: "true"}
		c.create(n)
		foreign = append(foreign, s)
	}
	before := c.nodes()
	c.startCCM(sim, "--leader-elect=false", "--controllers=cloud-node,cloud-node-lifecycle", "--node-status-update-frequency=200ms")
	sim.DeleteServer(servers[0].ID)
	eventually.Met(t, func() string {
		if _, ok := c.nodes()[servers[0].Name]; ok {
			return "the Node of a deleted server is still there"
		}
		return ""
	})
	for _, s := range foreign {
		n, ok := c.nodes()[s.Name]
		if !ok {
			t.Fatalf("Node %s, which is none of this cloud's, is gone", s.Name)
		}
		if n.ResourceVersion != before[s.Name].ResourceVersion {
			t.Errorf("Node %s, which is none of this cloud's, was changed: %+v", s.Name, n)
		}
	}
}

// A node that kubelet says is ready again loses the shutdown taint.
func TestShutdownTaintGoesWhenTheNodeIsReady(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})
	c.register(servers, always(nodeState{initialized: true}))
	c.startCCM(sim, "--leader-elect=false", "--controllers=cloud-node-lifecycle")
	sim.StopServer(servers[0].ID)
	tainted := func(want bool) func() string {
		return func() string {
			if hasTaint(c.nodes()[servers[0].Name], cloudproviderapi.TaintNodeShutdown) != want {
				return fmt.Sprintf("the shutdown taint is not as wanted: %t", want)
			}
			return ""
		}
	}
	eventually.Met(t, tainted(true))
	sim.StartServer(servers[0].ID)
	c.setReady(servers[0].Name, corev1.ConditionTrue)
	eventually.Met(t, tainted(false))
}
