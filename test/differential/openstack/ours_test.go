package openstack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/isthmus-cloud/isthmus/pkg/ccm"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
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

// startOurs runs the cloud controller manager with the real OpenStack provider in this process. stop
// ends it and returns its error.
func startOurs(t *testing.T, plane *controlplane.ControlPlane, conf, clusterName string) (stop func() error) {
	t.Helper()
	dir := t.TempDir()
	file, kubeconfig := filepath.Join(dir, "cloud.conf"), filepath.Join(dir, "kubeconfig")
	if err := errors.Join(os.WriteFile(file, []byte(conf), 0o600), controlplane.WriteKubeconfig(kubeconfig, plane.Config)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	run, err := compose(ctx, file, []string{
		"--cloud-provider=openstack", "--cloud-config=" + file, "--kubeconfig=" + kubeconfig, "--cluster-name=" + clusterName, "--controllers=service-lb-controller",
		"--kube-api-qps=1000", "--kube-api-burst=1000", "--bind-address=127.0.0.1", "--leader-elect=false", "--concurrent-service-syncs=30",
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run() }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			return errors.New("it did not end within a minute")
		}
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the cloud controller manager ended with: %v", err)
		}
	})
	return stop
}

// compose is what cmd/cloud-controller-manager does.
func compose(ctx context.Context, conf string, args []string) (func() error, error) {
	o, err := ccm.NewOptions()
	if err != nil {
		return nil, err
	}
	if _, _, err := ccm.Parse(o.Flags(), args); err != nil {
		return nil, err
	}
	if err := o.Validate([]string{"openstack"}); err != nil {
		return nil, err
	}
	if o.Serving.Listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	m, err := ccm.New(ctx, o)
	if err != nil {
		return nil, err
	}
	p, _, err := openstack.New(ctx, conf, cloud.Options{RequestTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	d, err := decorate.New(p, decorate.Options{})
	if err != nil {
		return nil, err
	}
	return func() error { return m.Run(ctx, d) }, nil
}
