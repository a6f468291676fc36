package openstack

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

// parallel is how many groups are played side by side, each with a control plane.
const parallel = 3

var showLogs = flag.Bool("controller-logs", false, "show what the controllers log")

var planes = controlplane.Pool[*controlplane.ControlPlane]{New: func() (*controlplane.ControlPlane, error) { return controlplane.Run(play.PlaneOptions()) }}

func TestMain(m *testing.M) {
	controlplane.Spacious()
	os.Exit(planes.Run(m, parallel, showLogs))
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
