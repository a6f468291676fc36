package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

// world is a simulated cloud beside a real API server.
type world struct {
	*controlplane.ControlPlane
	t     *testing.T
	flags []string
	// live is the cloud as the controller manager has it, which changes it.
	live    *decorate.Provider
	cluster cloud.Cluster
	// changes are the calls that have changed the cloud, as a plan has them.
	changes func() []string
}

func newWorld(t *testing.T, provider, conf string, changes func() []string) *world {
	t.Helper()
	w := &world{ControlPlane: shared.Plane(t), t: t, changes: changes}
	f := access.Flags{CloudProvider: provider, CloudConfig: conf, RequestTimeout: time.Minute, ClusterName: "kubernetes", ChangeCloud: true}
	var err error
	w.live, _, err = f.Cloud(t.Context(), w.Client)
	w.must(err)
	t.Cleanup(w.live.Close)
	w.cluster, err = f.Cluster(t.Context(), w.Client, w.live)
	w.must(err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(controlplane.WriteKubeconfig(kubeconfig, w.Config))
	w.flags = []string{"--kubeconfig", kubeconfig, "--cloud-provider", provider, "--cloud-config", conf}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// run calls the command. It returns what it wrote, and its exit code.
func (w *world) run(args ...string) (stdout string, code int) {
	w.t.Helper()
	cmd := Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append(args, w.flags...))
	err := cmd.ExecuteContext(w.t.Context())
	if e, ok := errors.AsType[output.Exit](err); ok {
		return out.String(), int(e)
	}
	if err != nil {
		return out.String() + err.Error(), 2
	}
	return out.String(), 0
}

// explained is what is said of an object. Nothing may be changed by that.
func (w *world) explained(code int, args ...string) *report {
	w.t.Helper()
	before := len(w.changes())
	out, got := w.run(append(args, "-o", "json")...)
	r := &report{}
	if err := json.Unmarshal([]byte(out), r); err != nil || got != code {
		w.t.Fatalf("%q: exit code %d, want %d, %v:\n%s", args, got, code, err, out)
	}
	if after := w.changes(); len(after) != before {
		w.t.Errorf("%q has changed the cloud: %q", args, after[before:])
	}
	return r
}

func (r *report) calls() (out []string) {
	for _, s := range r.Plan.Steps {
		if s.Service != inCluster {
			out = append(out, strings.Replace(strings.Replace(s.Call, "/load-balancer/v2.0", "", 1), "/network/v2.0", "", 1)) // as the simulator names them
		}
	}
	return out
}

// say is all that a report says.
func (r *report) say() string {
	var b bytes.Buffer
	if err := r.write(&b, "table"); err != nil {
		return err.Error()
	}
	return b.String()
}

// add creates an object until the test ends.
func add[T metav1.Object](w *world, create func(context.Context, T, metav1.CreateOptions) (T, error), remove func(context.Context, string, metav1.DeleteOptions) error, object T) T {
	w.t.Helper()
	out, err := create(w.t.Context(), object, metav1.CreateOptions{})
	w.must(err)
	t := w.t
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := remove(ctx, object.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("clean up: %v", err)
		}
	})
	return out
}

func (w *world) service(name string, annotations map[string]string) *corev1.Service {
	w.t.Helper()
	services := w.Client.CoreV1().Services("default")
	return add(w, services.Create, services.Delete, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}})
}

func (w *world) node(n *corev1.Node) *corev1.Node {
	w.t.Helper()
	status := n.Status
	nodes := w.Client.CoreV1().Nodes()
	made := add(w, nodes.Create, nodes.Delete, n)
	made.Status.Addresses, made.Status.Conditions = status.Addresses, status.Conditions
	made, err := nodes.UpdateStatus(w.t.Context(), made, metav1.UpdateOptions{})
	w.must(err)
	return made
}

// sync does for a Service what the controller does, and returns the calls that have changed the cloud.
func (w *world) sync(name string) []string {
	w.t.Helper()
	before := len(w.changes())
	services := w.Client.CoreV1().Services("default")
	s, err := services.Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	list, err := w.Client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	var all []*corev1.Node
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	spec, _, err := lb.Plan(s, lb.NewNodes(all, &w.live.LoadBalancing), w.cluster, &w.live.Provider)
	w.must(err)
	spec.Verify = true
	for {
		status, err := w.live.LoadBalancers.Ensure(w.t.Context(), spec)
		if cloud.KindOf(err) == cloud.KindRetryAfter {
			continue
		}
		w.must(err)
		s.Status.LoadBalancer.Ingress, s.Finalizers = status.Ingress, []string{lb.Finalizer}
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		maps.Copy(s.Annotations, status.Annotations)
		_, err = services.UpdateStatus(w.t.Context(), s, metav1.UpdateOptions{})
		w.must(err)
		return w.changes()[before:]
	}
}

// released takes off the finalizer, so that a Service can go.
func (w *world) release(name string) {
	w.t.Helper()
	_, err := w.Client.CoreV1().Services("default").Patch(w.t.Context(), name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	w.must(err)
}

func openStack(t *testing.T) (*world, *ossim.Sim) {
	sim := ossim.ForTest(t, ossim.Options{StateDelay: 3 * time.Millisecond})
	return newWorld(t, "openstack", sim.ConfFile(t, ""), func() (out []string) {
		for _, r := range sim.Requests() {
			if r.Method != http.MethodGet && r.Service != "identity" {
				out = append(out, r.Method+" "+r.Path)
			}
		}
		return out
	}), sim
}

func nodeOf(name, providerID, address string, ready bool) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if address != "" {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	}
	if ready {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	if providerID == "" {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

// TestServiceOnOpenStack: from its making to its end, what the plan says is what then happens.
func TestServiceOnOpenStack(t *testing.T) {
	w, sim := openStack(t)
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "os-", Flavor: "m1.small"})
	for _, s := range servers {
		w.node(nodeOf(s.Name, "openstack:///"+s.ID, s.Addresses[0].String(), true))
	}
	w.service("web", nil)
	r := w.explained(0, "service", "web")
	if calls := r.calls(); !slices.Equal(calls, []string{"POST /lbaas/loadbalancers"}) || len(r.Cloud) != 0 || len(r.Nodes) != 2 {
		t.Errorf("new: %s", r.say())
	}
	done := w.sync("web")
	if len(done) == 0 || done[0] != "POST /lbaas/loadbalancers" {
		t.Errorf("it was made with %q", done)
	}
	r = w.explained(0, "service", "web")
	if len(r.Plan.Steps) != 0 || len(r.Cloud) != 1 || len(r.Cloud[0].Addresses) == 0 || !strings.Contains(r.say(), "nothing to do") {
		t.Errorf("in sync: %s", r.say())
	}
	w.release("web")
}
