package explain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

// world is a simulated cloud beside a real API server.
type world struct {
	*controlplane.ControlPlane
	*place
	t     *testing.T
	flags []string
	// access is that of the controller manager.
	access access.Flags
	// live is the cloud as the controller manager has it, which changes it.
	live    *decorate.Provider
	cluster cloud.Cluster
	// status is what sync has got last.
	status *cloud.LoadBalancerStatus
}

func newWorld(t *testing.T, p *place) *world {
	t.Helper()
	w := &world{ControlPlane: shared.Plane(t), place: p, t: t}
	conf := filepath.Join(t.TempDir(), "cloud.conf")
	w.must(os.WriteFile(conf, []byte(p.Conf), 0o600))
	w.access = access.Flags{CloudProvider: p.Provider, CloudConfig: conf, RequestTimeout: time.Minute, ClusterName: cmp.Or(p.clusterName, "kubernetes"), ChangeCloud: true}
	w.restart()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(controlplane.WriteKubeconfig(kubeconfig, w.Config))
	w.flags = []string{"--kubeconfig", kubeconfig, "--cloud-provider", p.Provider, "--cloud-config", conf}
	return w
}

// restart makes another process of the controller manager.
func (w *world) restart() {
	w.t.Helper()
	var err error
	w.live, _, err = w.access.Cloud(w.t.Context(), w.Client)
	w.must(err)
	w.t.Cleanup(w.live.Close)
	w.cluster, err = w.access.Cluster(w.t.Context(), w.Client, w.live)
	w.must(err)
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
	args = append(args, w.flags...)
	if args[0] == "service" && w.clusterName != "" {
		args = append(args, "--cluster-name", w.clusterName)
	}
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(w.t.Context())
	if e, ok := errors.AsType[output.Exit](err); ok {
		return out.String(), int(e)
	}
	if err != nil {
		return out.String() + err.Error(), 2
	}
	return out.String(), 0
}

// report is what is said of an object, whatever else happens.
func (w *world) report(args ...string) *report {
	w.t.Helper()
	out, _ := w.run(append(args, "-o", "json")...)
	r := &report{}
	if err := json.Unmarshal([]byte(out), r); err != nil {
		w.t.Fatalf("%q: %v:\n%s", args, err, out)
	}
	return r
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
			out = append(out, masked(s.Call))
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
	remove := func(ctx context.Context, name string, o metav1.DeleteOptions) error {
		if _, err := services.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		return services.Delete(ctx, name, o)
	}
	return add(w, services.Create, remove, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}})
}

// node creates a Node of an instance until the test ends.
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

// sync does for a Service what the controller does, without the Nodes left out, and returns the calls that have changed the cloud.
func (w *world) sync(name string, leftOut ...string) []string {
	w.t.Helper()
	before := len(w.changes())
	services := w.Client.CoreV1().Services("default")
	s, err := services.Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	list, err := w.Client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	w.must(err)
	var all []*corev1.Node
	for i := range list.Items {
		if n := &list.Items[i]; lb.Excluded(n, w.live.LoadBalancing.Reach) == "" && !slices.Contains(leftOut, n.Name) {
			all = append(all, n)
		}
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
		w.status = status
		s.ResourceVersion = "" // its annotations may be the test's
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

// update changes a Service.
func (w *world) update(name string, change func(*corev1.Service)) {
	w.t.Helper()
	services := w.Client.CoreV1().Services("default")
	s, err := services.Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	change(s)
	_, err = services.Update(w.t.Context(), s, metav1.UpdateOptions{})
	w.must(err)
}

// TestUnreachableAPIServer: what is to be done is said, whatever is asked about.
func TestUnreachableAPIServer(t *testing.T) {
	w := newWorld(t, amazon(t))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: "https://127.0.0.1:1"}))
	w.flags = append(w.flags, "--kubeconfig", kubeconfig)
	for _, kind := range []string{"service", "node", "pv"} {
		if out, code := w.run(kind, "a"); code != 2 || !strings.Contains(out, ": API server https://127.0.0.1:1: ") || !strings.Contains(out, "\n→ look whether the API server at https://127.0.0.1:1 runs") {
			t.Errorf("%s: exit code %d: %s", kind, code, out)
		}
	}
}
