package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// world is all that the steps work on.
type world struct {
	bin, dir string
	scene    *scene
	cluster  *controlplane.ControlPlane
	admin    string // kubeconfig with all rights, for the user

	mu      sync.Mutex
	closers []func() error
}

// scene is a simulated cloud, and what of the steps is its own.
type scene struct {
	// provider is the value of --cloud-provider.
	provider string
	region   string
	machines []machine
	// conf is cloud.conf, "" for none; args are the manager's beside those for all clouds, and env is what our binaries' environment
	// has beside this process's.
	conf      string
	args, env []string
	// calls is the number of requests that the cloud has answered.
	calls func() int
	// stop powers a machine off, and remove deletes it, if a step does that.
	stop, remove func(context.Context, machine) error
	// volume makes a volume in a zone, and returns its source in a PersistentVolume.
	volume func(ctx context.Context, zone string) (corev1.PersistentVolumeSource, error)
	// balances says that Services get load balancers, which annotations ask for.
	balances    bool
	annotations map[string]string
	// resolve is where a load balancer's name leads, if the cloud publishes names.
	resolve func(name string) ([]netip.Addr, error)
	// look are commands for the curious.
	look []string
	// lacks is what is not shown because there is none of it on this cloud, "" for nothing.
	lacks string
}

// machine is one of the cloud's that becomes a Node.
type machine struct{ id, name, providerID, zone, address string }

// step is one line of what is shown.
type step struct {
	title string
	// run returns what was seen.
	run func(context.Context) (string, error)
}

// onClose makes close call f, last registered first called.
func (w *world) onClose(f func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closers = append([]func() error{f}, w.closers...)
}

// close undoes everything that was started.
func (w *world) close() error {
	w.mu.Lock()
	closers := w.closers
	w.closers = nil
	w.mu.Unlock()
	// The working folder goes last: it was registered last but others still write to it.
	if len(closers) > 1 {
		closers = append(slices.Clone(closers[1:]), closers[0])
	}
	var errs []error
	for _, f := range closers {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// runSteps runs the steps in order and reports whether one failed; the first failure ends it. Where nobody reads what it prints any
// more it calls unread, which ends ctx.
func (w *world) runSteps(ctx context.Context, unread func(), steps []step) (failed bool) {
	start := time.Now()
	for _, s := range steps {
		before, begin := w.calls(), time.Now()
		done := progress(s.title)
		seen, err := s.run(ctx)
		done()
		took := time.Since(begin).Seconds()
		calls := w.calls() - before
		if err != nil {
			if ctx.Err() != nil {
				return true
			}
			fmt.Printf("✗ %-52s %5.1f s %4d calls  %v\n", s.title, took, calls, err)
			w.explain()
			return true
		}
		if _, err := fmt.Printf("✓ %-52s %5.1f s %4d calls  %s\n", s.title, took, calls, seen); err != nil {
			unread()
			return true
		}
	}
	if w.scene.lacks != "" {
		fmt.Printf("– not tried: %s\n", w.scene.lacks)
	}
	fmt.Printf("\nall steps done in %.0f s with %d cloud API calls\n", time.Since(start).Seconds(), w.calls())
	return false
}

// progress says every 5 s that title is still being worked on, until the returned func is called.
func progress(title string) func() {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for begin := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
				fmt.Printf("… %s (%.0f s)\n", title, time.Since(begin).Seconds())
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// calls is the number of requests that the simulated cloud has answered.
func (w *world) calls() int {
	if w.scene == nil {
		return 0
	}
	return w.scene.calls()
}

// file is a file in the working folder.
func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

// start runs a binary with its output in <name>.log until the world closes: SIGTERM first,
// SIGKILL after 10 s.
func (w *world) start(name string, args ...string) (exited <-chan error, err error) {
	log, err := os.Create(w.file(name + ".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(w.bin, name), args...) //nolint:noctx // ends by SIGTERM, not by the context's SIGKILL
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), w.scene.env...)
	// Ctrl-C goes to the whole foreground process group: the child has one of its own.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w: run `make build`", name, err), log.Close())
	}
	ended := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(gone)
	}()
	w.onClose(func() error {
		defer func() { _ = log.Close() }()
		_ = cmd.Process.Signal(syscall.SIGTERM) // gone already is fine
		select {
		case <-gone:
			return nil
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
			return fmt.Errorf("%s did not end within 10 s of SIGTERM", name)
		}
	})
	return ended, nil
}

// serve runs server on listener until the world closes.
func (w *world) serve(server *http.Server, listener net.Listener) {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	w.onClose(func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
}

// eventually calls check every 100 ms until it returns nil, at most for 60 s; the last
// answer is the error.
func eventually(ctx context.Context, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// explain shows the end of the controller manager's log.
func (w *world) explain() {
	data, err := os.ReadFile(w.file("cloud-controller-manager.log"))
	if err != nil {
		return
	}
	const tail = 2000
	if len(data) > tail {
		data = data[len(data)-tail:]
	}
	fmt.Printf("\nthe end of cloud-controller-manager.log:\n%s\n", data)
}
