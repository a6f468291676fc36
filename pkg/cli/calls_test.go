package cli

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// size is how much a cluster has: Services of type LoadBalancer, each with its load balancer in the cloud, and as many load balancers without
// a Service.
type size struct{ nodes, services int }

// world is a cluster in a cloud.
type world struct {
	*place
	*apiServer
	t *testing.T
	// conf is the path of its cloud.conf.
	conf string
	// nodes are those that its instances have.
	nodes []*corev1.Node
}

// newWorld makes a cluster of a size, whose API server does not know its Nodes yet.
func newWorld(t *testing.T, p *place, of size) *world {
	t.Helper()
	w := &world{place: p, apiServer: newAPIServer(t), t: t, conf: filepath.Join(t.TempDir(), "cloud.conf")}
	w.must(os.WriteFile(w.conf, []byte(p.Conf), 0o600))
	for _, i := range p.instances(t, of.nodes) {
		w.nodes = append(w.nodes, nodeOf(i))
	}
	pv, _, err := p.MakeVolume(t.Context())
	w.must(err)
	pv.Name = "data"
	w.add("/api/v1/persistentvolumes", pv)
	f := access.Flags{CloudProvider: p.Provider, CloudConfig: w.conf, RequestTimeout: time.Minute, ClusterName: "kubernetes", Kubeconfig: w.kubeconfig(t), ChangeCloud: true}
	client, _, err := f.Client(t.Context())
	w.must(err)
	live, _, err := f.Cloud(t.Context(), client)
	w.must(err)
	t.Cleanup(live.Close)
	cluster, err := f.Cluster(t.Context(), client, live)
	w.must(err)
	var group sync.WaitGroup
	for n := range of.services {
		served, stuck := service(fmt.Sprint("web-", n), p.Settings), service(fmt.Sprint("stuck-", n), p.Settings)
		w.add("/api/v1/services", served)
		w.add("/api/v1/services", stuck)
		if live.LoadBalancers == nil {
			continue
		}
		members := w.nodes
		if n > 0 {
			members = w.nodes[:1]
		}
		orphan := service(fmt.Sprint("orphan-", n), p.Settings)
		group.Go(func() { w.made(live, cluster, served, members) })
		group.Go(func() { w.made(live, cluster, orphan, w.nodes[:1]) })
	}
	group.Wait()
	w.asked = map[string]int{}
	w.place.took()
	return w
}

// made makes what a Service has in the cloud.
func (w *world) made(live *decorate.Provider, cluster cloud.Cluster, s *corev1.Service, nodes []*corev1.Node) {
	spec, _, err := lb.Plan(s, lb.NewNodes(nodes, &live.LoadBalancing), cluster, &live.Provider)
	if err != nil {
		w.t.Error(err)
		return
	}
	for {
		status, err := live.LoadBalancers.Ensure(w.t.Context(), spec)
		if cloud.KindOf(err) == cloud.KindRetryAfter {
			continue
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		s.Status.LoadBalancer.Ingress = status.Ingress
		maps.Copy(s.Annotations, status.Annotations)
		return
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func nodeOf(i cloudtest.Instance) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: i.Ref.NodeName, UID: types.UID(i.Ref.NodeName), CreationTimestamp: old()}, Spec: corev1.NodeSpec{ProviderID: i.Ref.ProviderID}}
	for _, a := range i.Addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func service(name string, settings cloud.Settings) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String()), CreationTimestamp: old(),
		Annotations: maps.Clone(settings), Finalizers: []string{lb.Finalizer}}}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: corev1.ProtocolTCP}}}
	return s
}

// calls runs a command, and returns what it has asked of both sides.
func (w *world) calls(args ...string) map[string]int {
	w.t.Helper()
	root := Command("isthmus")
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	args = append(args, "--kubeconfig", w.kubeconfig(w.t))
	if args[0] != "status" {
		args = append(args, "--cloud-provider", w.Provider, "--cloud-config", w.conf)
	}
	root.SetArgs(args)
	err := root.ExecuteContext(w.t.Context())
	if _, told := errors.AsType[output.Exit](err); err != nil && !told {
		w.t.Errorf("%q: %v", args, err)
	}
	asked := w.apiServer.took()
	maps.Copy(asked, w.place.took())
	return asked
}

// grows is for how many Nodes, or how many Services with a load balancer, a request more is made; 0 for no number of them.
type grows struct{ nodes, services int }

// pages are requests of the API server: of 500 objects each. A Service has another one beside it that is stuck.
var pages = map[string]grows{"GET /api/v1/nodes": {nodes: access.PageSize}, "GET /api/v1/services": {services: access.PageSize / 2}}

// cost is a command, and which requests of the cloud grow with it.
type cost struct {
	args  []string
	cloud map[string]map[string]grows // by cloud
	// instances says that it asks for those of Nodes.
	instances bool
}

// costs of each command. A Service has two load balancers here, one of which is an orphan: AWS tells the tags of 20 objects at a time, which are
// load balancers and as many target groups, and Neutron the floating IPs of 50 ports. explain reads them once more with the whole list.
func costs() []cost {
	listed := map[string]map[string]grows{
		"openstack": {"network GET /floatingips": {services: 25}}, "aws": {"DescribeTags": {services: 5}}, "aws-classic": {"DescribeTags": {services: 10}},
	}
	return []cost{
		{args: []string{"status"}},
		{args: []string{"doctor"}, instances: true, cloud: map[string]map[string]grows{
			"openstack": {"compute GET /servers/detail": {nodes: 1000}, "network GET /ports": {nodes: 1000}},
			"vsphere":   {"ContinueRetrievePropertiesEx": {nodes: 20}},
		}},
		{args: []string{"explain", "node", "NODE"}, instances: true},
		{args: []string{"explain", "pv", "data"}},
		{args: []string{"explain", "service", "-n", "default", "web-0"}, cloud: map[string]map[string]grows{
			"openstack":   {"network GET /floatingips": {services: 25}, "network GET /ports": {nodes: 1000}, "load-balancer GET /lbaas/pools/ID/members": {nodes: 1000}},
			"aws":         {"DescribeTags": {services: 2}},
			"aws-classic": {"DescribeTags": {services: 5}},
		}},
		{args: []string{"orphans"}, cloud: listed},
		{args: []string{"orphans", "--delete", "--yes"}, cloud: listed}, // nothing is: the API server remembers no time
	}
}

// state is what may be of a cluster's Nodes, and how many requests of a kind may be made more with many of them.
type state struct {
	name string
	more int
	node func(p *place, n int, node *corev1.Node)
}

// states: doctor reads 20 instances by themselves that are not in the cloud's list, by two requests of a kind on vSphere.
func states() []state {
	return []state{
		{name: "initialized", node: func(*place, int, *corev1.Node) {}},
		{name: "new", node: func(_ *place, _ int, node *corev1.Node) { node.Spec.ProviderID, node.Status.Addresses = "", nil }},
		{name: "half of their instances are gone", more: 2 * 20, node: func(p *place, n int, node *corev1.Node) {
			if n%2 == 0 {
				node.Spec.ProviderID = p.UnknownID()
			}
		}},
	}
}

// measured is how often what is asked of both sides, by the state of Nodes and the command.
func measured(t *testing.T, p *place, of size, states []state) map[string]map[string]int {
	t.Helper()
	w, out := newWorld(t, p, of), map[string]map[string]int{}
	for n, s := range states {
		w.lists["/api/v1/nodes"] = nil
		for i, node := range w.nodes {
			node = node.DeepCopy()
			s.node(p, i, node)
			w.add("/api/v1/nodes", node)
		}
		for _, c := range costs() {
			if n > 0 && !c.instances {
				continue
			}
			args := slices.Clone(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "NODE", w.nodes[0].Name)
			}
			out[s.name+": "+strings.Join(c.args, " ")] = w.calls(args...)
		}
	}
	return out
}

// TestRequestsDoNotGrowWithTheCluster: but by pages and batches.
func TestRequestsDoNotGrowWithTheCluster(t *testing.T) {
	few := size{10, 5}
	for _, c := range []struct {
		name   string
		start  func(*testing.T) *place
		many   size
		states []state
	}{
		{"openstack", openStack, size{1000, 30}, states()},
		{"aws", amazon, size{1000, 30}, states()},
		{"aws-classic", classic, size{1000, 20}, states()[:1]},
		{"vsphere", vCenter, size{60, 30}, states()}, // machines of vcsim take their time
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := measured(t, c.start(t), few, c.states), measured(t, c.start(t), c.many, c.states)
			for _, s := range c.states {
				for _, of := range costs() {
					what := s.name + ": " + strings.Join(of.args, " ")
					for request, n := range after[what] {
						g, ok := of.cloud[c.name][request]
						if !ok {
							g = pages[request]
						}
						most := before[what][request] + g.of(c.many) + s.more
						if n > most {
							t.Errorf("%s: %d times %s, want %d at most; with few Nodes and Services %d", what, n, request, most, before[what][request])
						}
					}
				}
			}
			if got := after["initialized: doctor"]["GET /api/v1/nodes"]; c.many.nodes > access.PageSize && got != 2 {
				t.Errorf("%d reads of Nodes: the test checks nothing", got)
			}
		})
	}
}

// of is how many requests more a cluster of a size may cost.
func (g grows) of(s size) (n int) {
	if g.nodes > 0 {
		n += (s.nodes + g.nodes - 1) / g.nodes
	}
	if g.services > 0 {
		n += (s.services + g.services - 1) / g.services
	}
	return n
}
