// Package chaos kills, restarts and starves what a cluster would: several processes of the
// real cloud-controller-manager, as its manifests start it, that host the webhooks of a real
// kube-apiserver and work against the simulated cloud.
//
// kube-apiserver calls the webhooks through the Service of the manifests, as in a cluster.
// There is no network and no kube-proxy that would give its cluster IP a meaning: in their
// place, kube-apiserver has an egress proxy, in this package, that leads to a balancer that
// does what they do (see network and balancer), lags included.
package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// shared is what all tests have in common. It starts with the first of them and ends with
// the package. Tests do not run in parallel.
type shared struct {
	once       sync.Once
	err        error
	dir        string
	plane      *controlplane.ControlPlane
	network    *network
	kubeconfig string // of the manifests' ServiceAccount
	binary     string
}

var theShared shared

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	before := goleak.IgnoreCurrent()
	// etcd and kube-apiserver would stay behind when the tests are told to end.
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-told:
			theShared.once.Do(func() {}) // it may be starting
			_ = theShared.stop()         // nobody is left to tell
			os.Exit(1)
		case <-ended:
		}
	})
	code := m.Run()
	close(ended)
	watch.Wait()
	signal.Stop(told)
	if err := errors.Join(theShared.stop(), goleak.Find(before)); err != nil {
		fmt.Fprintln(os.Stderr, "after all tests:", err)
		code = 1
	}
	os.Exit(code)
}

func (s *shared) start() error {
	var err error
	if s.dir, err = os.MkdirTemp("", "isthmus-chaos-"); err != nil {
		return err
	}
	s.binary = filepath.Join(s.dir, "cloud-controller-manager")
	if s.network, err = startNetwork(s.dir); err != nil {
		return err
	}
	built := make(chan error, 1)
	go func() { built <- build(s.binary) }()
	s.plane, err = controlplane.Run(controlplane.Options{APIServerArgs: map[string][]string{
		// ServiceAccount is what envtest turns off; without the other one, nothing would
		// let go of a PersistentVolume that is deleted.
		"disable-admission-plugins":   {"ServiceAccount", "StorageObjectInUseProtection"},
		"egress-selector-config-file": {s.network.config},
	}})
	if err = errors.Join(err, <-built); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, of := range []func() ([]byte, error){manifests.RBAC, manifests.RegistrationRBAC, manifests.SelfManagedRBAC} {
		rbac, err := of()
		if err != nil {
			return err
		}
		if err := s.plane.Apply(ctx, rbac); err != nil {
			return err
		}
	}
	policy, err := fs.ReadFile(manifests.FS(), "components/webhook-auto/policy.yaml")
	if err != nil {
		return err
	}
	// As docs/guides/webhooks.md says for --webhook-failure-policy=Fail.
	if err := s.plane.Apply(ctx, bytes.Replace(policy, []byte(`["Ignore"]`), []byte(`["Ignore", "Fail"]`), 1)); err != nil {
		return err
	}
	config, err := s.plane.ServiceAccountConfig(ctx, manifests.Namespace, manifests.ServiceAccount, time.Hour)
	if err != nil {
		return err
	}
	s.kubeconfig = filepath.Join(s.dir, "kubeconfig")
	return controlplane.WriteKubeconfig(s.kubeconfig, config)
}

// build builds the real binary, without the race detector: it is to be as fast as what ships.
func build(file string) error {
	// The go command takes notice of which folders a test reads: without that, results of this
	// package, which does not import what it tests, would be taken from its cache.
	for _, dir := range []string{"cmd", "pkg", "webhooks", "manifests"} {
		if err := filepath.WalkDir(filepath.Join("..", "..", dir), func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", file, "github.com/isthmus-cloud/isthmus/cmd/cloud-controller-manager")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make build` does, which shares the build cache
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// stop ends the control plane. A process of ours that is still there is an error, and ended.
func (s *shared) stop() error {
	var errs []error
	if s.plane != nil {
		errs = append(errs, s.plane.Stop())
	}
	if s.network != nil {
		errs = append(errs, s.network.stop())
	}
	for _, p := range running(s.binary) {
		errs = append(errs, fmt.Errorf("process %d of the cloud controller manager is left behind", p.Pid), p.Kill())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// running are the processes that run the binary.
func running(binary string) []*os.Process {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil || binary == "" {
		return nil
	}
	var out []*os.Process
	for _, link := range links {
		if exe, err := os.Readlink(link); err != nil || strings.TrimSuffix(exe, " (deleted)") != binary {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/exe", &pid); err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			out = append(out, p)
		}
	}
	return out
}
