package aws

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

var showLogs = flag.Bool("controller-logs", false, "show what the controllers log")

var planes = controlplane.Pool[*controlplane.ControlPlane]{New: func() (*controlplane.ControlPlane, error) { return controlplane.Run(play.PlaneOptions()) }}

func TestMain(m *testing.M) { os.Exit(planes.Run(m, 1, showLogs)) }

// recordedOnly are the prefixes of the groups that are recorded, but not played with ours yet: those of Services, routes and tags.
var recordedOnly = []string{"classic", "network"}

// serves says whether a group is played with ours. Whatever is not named above is.
func serves(g *script.Group) bool {
	return !slices.ContainsFunc(recordedOnly, func(prefix string) bool { return strings.HasPrefix(g.Name, prefix) })
}

// startOurs runs the cloud controller manager with the real AWS provider in this process.
func startOurs(t *testing.T, plane *controlplane.ControlPlane, place *play.Place, g *script.Group) *inprocess.Manager {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, plane.Config); err != nil {
		t.Fatal(err)
	}
	for _, v := range place.Env {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, value)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", place.Sim.URL()) // a process reads once where its proxy is
	args := []string{"--cluster-name=" + script.ClusterName, "--controllers=" + strings.Join(g.Controllers, ","),
		"--kube-api-qps=1000", "--kube-api-burst=1000", "--leader-elect=false", "--node-deletion-settle-time=0s", "--node-deletion-limit-percentage=100"}
	return inprocess.Start(t, inprocess.Options{CloudConf: g.Conf, Kubeconfig: kubeconfig, Args: append(args, g.Args...),
		Factory: func(ctx context.Context, file string, o cloud.Options) (*cloud.Provider, []string, error) {
			p, warnings, err := aws.New(ctx, file, o)
			if err == nil {
				p.Newborn = 0 // nobody waits here for what EC2 may not know yet
			}
			return p, warnings, err
		}})
}
