package explain

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/providers"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

// TestManagerDoesWhatWasPlanned: a controller manager makes of a Node, a Service and a PersistentVolume what the plans say, and then there
// is nothing to do for them.
func TestManagerDoesWhatWasPlanned(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *place{"openstack": openStack, "aws": amazon, "vsphere": vCenter, "vsphere-paravirtual": superVisor} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, start(t))
			i, err := w.MakeInstance(t.Context(), w.Provider+"-new")
			w.must(err)
			w.node(fresh(nodeOf(i)))
			w.service("web", w.settings())
			if w.live.Volumes != nil {
				object, _, err := w.MakeVolume(t.Context())
				w.must(err)
				object.Name, object.Spec.Capacity, object.Spec.AccessModes = "data", size, modes
				w.volume(object)
			}
			asked := [][]string{{"node", i.Ref.NodeName}, {"service", "web"}}
			if w.live.Volumes != nil {
				asked = append(asked, []string{"pv", "data"})
			}
			planned := w.explained(0, asked[0]...).Plan.Steps
			w.start()
			eventually.Met(t, func() string {
				for _, a := range asked {
					if r := w.report(a...); len(r.Plan.Steps) > 0 || strings.HasPrefix(r.Plan.Note, onceDone) {
						return r.say()
					}
				}
				return ""
			})
			w.holds(planned, i.Ref.NodeName)
		})
	}
}

// start runs a controller manager until the test ends.
func (w *world) start() {
	w.t.Helper()
	factory, err := providers.Named(w.Provider)
	w.must(err)
	kubeconfig := filepath.Join(w.t.TempDir(), "kubeconfig")
	w.must(controlplane.WriteKubeconfig(kubeconfig, w.Config))
	inprocess.Start(w.t, inprocess.Options{CloudConf: w.Conf, Kubeconfig: kubeconfig, Factory: factory,
		Args: []string{"--leader-elect=false", "--controllers=*,persistentvolume-label-controller", "--configure-cloud-routes=false",
			"--cluster-name=" + w.access.ClusterName}})
}

// holds fails the test unless the labels that were planned are there.
func (w *world) holds(planned []step, node string) {
	w.t.Helper()
	n, err := w.Client.CoreV1().Nodes().Get(w.t.Context(), node, metav1.GetOptions{})
	w.must(err)
	checked := 0
	for _, s := range planned {
		rest, ok := strings.CutPrefix(s.Words, "set labels: ")
		if !ok {
			continue
		}
		for pair := range strings.SplitSeq(rest, ", ") {
			key, value, _ := strings.Cut(pair, "=")
			if checked++; n.Labels[key] != value {
				w.t.Errorf("label %s is %q, and was planned as %q", key, n.Labels[key], value)
			}
		}
	}
	if checked < 2 {
		w.t.Errorf("%d labels were planned: %+v", checked, planned)
	}
	if w.live.Volumes == nil {
		return
	}
	object, err := w.Client.CoreV1().PersistentVolumes().Get(w.t.Context(), "data", metav1.GetOptions{})
	w.must(err)
	if object.Labels[corev1.LabelTopologyZone] == "" {
		w.t.Errorf("the PersistentVolume has the labels %v", object.Labels)
	}
}
