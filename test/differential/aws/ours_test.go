package aws

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// parallel is how many groups are played side by side, each with a control plane.
const parallel = 2

func TestMain(m *testing.M) {
	controlplane.Spacious()
	os.Exit(planes.Run(m, parallel, showLogs))
}

// environment is the process's: one manager at a time looks at it, while it is made, and finds its own simulator there.
var environment sync.Mutex

// startOurs runs the cloud controller manager with the real AWS provider in this process.
func startOurs(t *testing.T, plane *controlplane.ControlPlane, place *play.Place, g *script.Group) *inprocess.Manager {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, plane.Config); err != nil {
		t.Fatal(err)
	}
	args := []string{"--cluster-name=" + script.ClusterName, "--controllers=" + strings.Join(g.Controllers, ","),
		"--kube-api-qps=1000", "--kube-api-burst=1000", "--leader-elect=false", "--node-deletion-settle-time=0s", "--node-deletion-limit-percentage=100"}
	return inprocess.Start(t, inprocess.Options{CloudConf: g.Conf, Kubeconfig: kubeconfig, Args: append(args, g.Args...),
		Factory: func(ctx context.Context, file string, o cloud.Options) (*cloud.Provider, []string, error) {
			environment.Lock()
			defer environment.Unlock()
			if err := pointAt(place); err != nil {
				return nil, nil, err
			}
			p, warnings, err := aws.New(ctx, file, o)
			if err == nil {
				p.Newborn = 0 // nobody waits here for what EC2 may not know yet
			}
			return p, warnings, err
		}})
}

// pointAt has the next manager take the place for AWS. It is told its region: else it would look at the environment again later.
func pointAt(place *play.Place) error {
	var errs []error
	for _, v := range append(place.Env, "AWS_REGION="+script.Region, "AWS_ENDPOINT_URL="+place.Sim.URL()) { // a process reads once where its proxy is
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			errs = append(errs, os.Setenv(name, value))
		}
	}
	return errors.Join(errs...)
}
