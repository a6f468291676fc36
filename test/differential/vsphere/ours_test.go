package vsphere

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/play"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

var showLogs = flag.Bool("controller-logs", false, "show what the controllers log")

var planes = controlplane.Pool[*controlplane.ControlPlane]{New: func() (*controlplane.ControlPlane, error) { return controlplane.Run(play.PlaneOptions()) }}

// parallel is how many groups are played side by side, each with a control plane.
const parallel = 2

func TestMain(m *testing.M) {
	controlplane.Spacious()
	os.Exit(planes.Run(m, parallel, showLogs))
}

// ours is the cloud controller manager with the real vSphere provider in this process.
type ours struct {
	*inprocess.Manager
	instances atomic.Pointer[heard]
}

// heard are instances that know which Nodes they were asked for.
type heard struct {
	cloud.Instances
	owns func(*corev1.Node) bool

	mu    sync.Mutex
	names map[string]bool
}

func (h *heard) note(refs ...cloud.InstanceRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range refs {
		h.names[r.NodeName] = true
	}
}

// Find implements cloud.Instances.
func (h *heard) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	defer h.note(refs...)
	return h.Instances.Find(ctx, refs)
}

// Get implements cloud.Instances.
func (h *heard) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	defer h.note(ref)
	return h.Instances.Get(ctx, ref)
}

// heardOf reports whether a Node that waits to be initialized was asked for, if it is ours.
func (o *ours) heardOf(n *corev1.Node) bool {
	h := o.instances.Load()
	if h == nil {
		return false
	}
	waits := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider })
	if !waits || h.owns != nil && !h.owns(n) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[n.Name]
}

// startOurs runs it on a control plane.
func startOurs(t *testing.T, plane *controlplane.ControlPlane, g *script.Group, conf string) *ours {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, plane.Config); err != nil {
		t.Fatal(err)
	}
	args := []string{"--controllers=" + strings.Join(g.Controllers, ","), "--kube-api-qps=1000", "--kube-api-burst=1000", "--leader-elect=false",
		"--node-deletion-settle-time=0s", "--node-deletion-limit-percentage=100"}
	o := &ours{}
	o.Manager = inprocess.Start(t, inprocess.Options{CloudConf: conf, Kubeconfig: kubeconfig, Args: append(append(args, g.Args...), "--node-monitor-period=200ms"),
		Factory: func(ctx context.Context, file string, options cloud.Options) (*cloud.Provider, []string, error) {
			p, warnings, err := vsphere.New(ctx, file, options)
			if err == nil {
				h := &heard{Instances: p.Instances, owns: p.Owns, names: map[string]bool{}}
				p.Instances = h
				o.instances.Store(h)
			}
			return p, warnings, err
		}})
	return o
}
