package explain

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// nodeOf is a Node that is ready, as it is once it is initialized but for its labels.
func nodeOf(i cloudtest.Instance) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: i.Ref.NodeName}, Spec: corev1.NodeSpec{ProviderID: i.Ref.ProviderID}}
	for _, a := range i.Addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// fresh makes of a Node one that waits for its initialization.
func fresh(n *corev1.Node) *corev1.Node {
	n.Spec.ProviderID, n.Status.Addresses = "", nil
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

// TestNode on each cloud.
func TestNode(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *place{"openstack": openStack, "aws": amazon, "vsphere": vCenter} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, start(t))
			made := map[string]cloudtest.Instance{}
			for _, name := range []string{"healthy", "new", "gone", "gone-ready", "off", "given", "relabeled"} {
				i, err := w.MakeInstance(t.Context(), w.Provider+"-"+name)
				w.must(err)
				made[name] = i
			}
			notReady := func(n *corev1.Node) *corev1.Node { n.Status.Conditions = nil; return n }
			healthy := nodeOf(made["healthy"])
			answer, err := w.live.Nodes.Lookup(t.Context(), made["healthy"].Ref, 0, nil)
			w.must(err)
			healthy.Status.Addresses = answer.Addresses
			w.node(healthy)
			relabeled := nodeOf(made["relabeled"])
			relabeled.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "a", corev1.LabelTopologyZone: "b", corev1.LabelFailureDomainBetaRegion: "c"}
			answer, err = w.live.Nodes.Lookup(t.Context(), made["relabeled"].Ref, 0, nil)
			w.must(err)
			relabeled.Status.Addresses = answer.Addresses
			w.node(relabeled)
			w.node(fresh(nodeOf(made["new"])))
			w.node(notReady(nodeOf(made["gone"])))
			w.node(nodeOf(made["gone-ready"]))
			off := notReady(nodeOf(made["off"]))
			answer, err = w.live.Nodes.Lookup(t.Context(), made["off"].Ref, 0, nil)
			w.must(err)
			off.Status.Addresses = answer.Addresses
			w.node(off)
			w.node(fresh(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}))
			given := nodeOf(made["given"])
			given.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "203.0.113.77"}
			w.node(fresh(given))
			w.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: corev1.NodeSpec{ProviderID: "elsewhere://1", Taints: fresh(&corev1.Node{}).Spec.Taints}})
			w.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "left-out", Labels: map[string]string{cloud.ExcludeNode: "true"}}})
			w.must(w.StopInstance(t.Context(), made["off"]))
			w.must(w.DeleteInstance(t.Context(), made["gone"]))
			w.must(w.DeleteInstance(t.Context(), made["gone-ready"]))
			for _, c := range []struct {
				node  string
				code  int
				wants []string // of the text
				steps []string // how they begin
			}{
				{made["healthy"].Ref.NodeName, 0, []string{"found by the provider ID", "nothing to do"}, nil},
				{made["relabeled"].Ref.NodeName, 0, nil, []string{"set labels: " + corev1.LabelTopologyRegion + "=c, " + corev1.LabelTopologyZone + "=a"}},
				{made["new"].Ref.NodeName, 0, []string{made["new"].Ref.ProviderID}, []string{"set spec.providerID: " + made["new"].Ref.ProviderID, "set labels: ", "take away the taint", "set the addresses"}},
				{made["gone"].Ref.NodeName, 1, []string{"is gone: "}, []string{"delete the Node"}},
				{made["gone-ready"].Ref.NodeName, 1, []string{"it stays while it is ready"}, nil},
				{made["off"].Ref.NodeName, 0, []string{"shut down"}, []string{"add the taint " + cloudproviderapi.TaintNodeShutdown}},
				{made["given"].Ref.NodeName, 1, []string{"its addresses are not set", "203.0.113.77", "--node-ip"}, nil},
				{"nobody", 1, []string{"the taint " + cloudproviderapi.TaintExternalCloudProvider + " stays", "no instance matches it", "--hostname-override"}, []string{"delete the Node"}},
				{"foreign", 1, []string{"nobody takes away"}, nil},
				{"left-out", 0, []string{cloud.ExcludeNode + "=true"}, nil},
			} {
				if c.node == "nobody" && w.newborn {
					c.code, c.wants, c.steps = 2, []string{"UNCHECKED", "so new"}, nil
				}
				r := w.explained(c.code, "node", c.node)
				said := r.say()
				if slices.ContainsFunc(c.wants, func(s string) bool { return !strings.Contains(said, s) }) || len(r.Plan.Steps) != len(c.steps) {
					t.Errorf("%s: want %q and the steps %q:\n%s", c.node, c.wants, c.steps, said)
					continue
				}
				for i, s := range c.steps {
					if !strings.HasPrefix(r.Plan.Steps[i].Words, s) {
						t.Errorf("%s: step %d is not %q:\n%s", c.node, i+1, s, said)
					}
				}
			}
		})
	}
}

// TestNodesThatAreKept: with credentials that show none of the cluster's instances nothing is deleted, in the deletion guard's words.
func TestNodesThatAreKept(t *testing.T) {
	w := newWorld(t, openStack(t))
	for _, name := range []string{"a", "b"} {
		i, err := w.MakeInstance(t.Context(), name)
		w.must(err)
		n := nodeOf(i)
		n.Status.Conditions = nil
		w.node(n)
		w.must(w.DeleteInstance(t.Context(), i))
	}
	if r := w.explained(1, "node", "a"); len(r.Plan.Steps) != 0 || !strings.Contains(r.say(), "the Node is kept") || !strings.Contains(r.say(), "3 Nodes or 45 %") {
		t.Errorf("kept: %s", r.say())
	}
	w.flags = nil // the kind counts first
	if out, code := w.run("deployment", "a"); code != 2 || !strings.Contains(out, "deployment") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// What each PersistentVolume needs.
var (
	size  = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(1<<30, resource.BinarySI)}
	modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
)

// TestPV on each cloud that labels PersistentVolumes.
func TestPV(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *place{"openstack": openStack, "aws": amazon} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, start(t))
			for _, name := range []string{"data", "lost"} {
				object, zone, err := w.MakeVolume(t.Context())
				w.must(err)
				object.Name, object.Spec.Capacity, object.Spec.AccessModes = name, size, modes
				w.volume(object)
				if name == "lost" {
					w.must(w.DeleteVolume(t.Context(), object))
					if r := w.explained(1, "pv", name); len(r.Plan.Steps) != 0 || len(r.Cloud) != 0 || len(r.Findings) != 1 {
						t.Errorf("without its volume: %s", r.say())
					}
					continue
				}
				r := w.explained(0, "pv", name)
				if said := r.say(); !strings.Contains(said, "add the label "+corev1.LabelTopologyZone+"="+zone) || !strings.Contains(said, "node affinity waits for a Node in ") || !strings.Contains(said, corev1.LabelTopologyZone+"="+zone) || len(r.Cloud) != 1 {
					t.Errorf("with its volume: %s", said)
				}
			}
			other := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
			other.Spec.Capacity, other.Spec.AccessModes = size, modes
			other.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data"}
			w.volume(other)
			if r := w.explained(0, "pv", "other"); len(r.Plan.Steps) != 0 || !strings.Contains(r.say(), "nothing to do: it is another's") {
				t.Errorf("another's: %s", r.say())
			}
		})
	}
}

// volume creates a PersistentVolume until the test ends, which something has protected.
func (w *world) volume(object *corev1.PersistentVolume) {
	w.t.Helper()
	pvs := w.Client.CoreV1().PersistentVolumes()
	add(w, pvs.Create, func(ctx context.Context, name string, o metav1.DeleteOptions) error {
		if _, err := pvs.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		return pvs.Delete(ctx, name, o)
	}, object)
}
