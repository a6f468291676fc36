package openstack

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

// parallel is how many groups are played side by side, each with a control plane.
const parallel = 3

var showLogs = flag.Bool("controller-logs", false, "show what the controllers log")

// planes are the control planes of the package; each belongs to one test at a time.
var planes struct {
	mu        sync.Mutex
	all, free []*controlplane.ControlPlane
}

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	flag.Parse()
	if !*showLogs {
		controlplane.Silence()
	}
	ctrl.SetLogger(klog.Background())
	code := m.Run()
	for _, p := range planes.all {
		if err := p.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// takePlane returns a control plane that no other test has until t ends.
func takePlane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	planes.mu.Lock()
	var p *controlplane.ControlPlane
	if n := len(planes.free); n > 0 {
		p, planes.free = planes.free[n-1], planes.free[:n-1]
	}
	planes.mu.Unlock()
	if p == nil {
		var err error
		if p, err = controlplane.Run(PlaneOptions()); err != nil {
			t.Fatal(err)
		}
		planes.mu.Lock()
		planes.all = append(planes.all, p)
		planes.mu.Unlock()
	}
	t.Cleanup(func() {
		planes.mu.Lock()
		defer planes.mu.Unlock()
		planes.free = append(planes.free, p)
	})
	return p
}

// startOurs runs the cloud controller manager with the real OpenStack provider in this process.
func startOurs(t *testing.T, plane *controlplane.ControlPlane, conf, clusterName string) *inprocess.Manager {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, plane.Config); err != nil {
		t.Fatal(err)
	}
	return inprocess.Start(t, inprocess.Options{CloudConf: conf, Kubeconfig: kubeconfig, Args: []string{
		"--cluster-name=" + clusterName, "--controllers=service-lb-controller",
		"--kube-api-qps=1000", "--kube-api-burst=1000", "--leader-elect=false", "--concurrent-service-syncs=30",
	}})
}
