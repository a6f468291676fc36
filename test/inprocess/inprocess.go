// Package inprocess runs the cloud controller manager with the real OpenStack provider in a test's process.
package inprocess

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/ccm"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// Options say what runs.
type Options struct {
	// CloudConf is the text of cloud.conf, Kubeconfig a path.
	CloudConf, Kubeconfig string
	// Args are the flags beside --cloud-provider, --cloud-config, --kubeconfig and --bind-address.
	Args []string
	// RequestTimeout is that of one call to the cloud, 10 s when it is zero.
	RequestTimeout time.Duration
	Decorate       caller.Options
	// Factory makes the cloud of --cloud-provider=fake; nil is OpenStack.
	Factory cloud.Factory
}

// Manager is one that runs. Its methods may be called by the test's goroutine only.
type Manager struct {
	// Address is where it serves.
	Address string
	// Ended is closed when it has ended, by itself or by Stop.
	Ended   <-chan struct{}
	t       *testing.T
	cancel  context.CancelFunc
	err     error
	stopped bool
}

// Start starts one, which runs until Stop or the test's end. The test fails when it does not start,
// or ends with an error that Stop has not returned.
func Start(t *testing.T, o Options) *Manager {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	m := &Manager{t: t, cancel: cancel, Ended: ended}
	run, err := m.compose(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		m.err = run()
	}()
	t.Cleanup(func() {
		if m.stopped {
			return
		}
		if err := m.Stop(); err != nil {
			t.Errorf("the cloud controller manager ended with: %v", err)
		}
	})
	return m
}

// Stop ends it, as a signal does, and returns what it ended with. It may be called again.
func (m *Manager) Stop() error {
	m.t.Helper()
	m.stopped = true
	m.cancel()
	eventually.Received(m.t, "the cloud controller manager ends", m.Ended)
	return m.err
}

// compose is what cmd/cloud-controller-manager does.
func (m *Manager) compose(ctx context.Context, o Options) (func() error, error) {
	conf := filepath.Join(m.t.TempDir(), "cloud.conf")
	if err := os.WriteFile(conf, []byte(o.CloudConf), 0o600); err != nil {
		return nil, err
	}
	opts, err := options.New()
	if err != nil {
		return nil, err
	}
	name, factory := "openstack", cloud.Factory(openstack.New)
	if o.Factory != nil {
		name, factory = "fake", o.Factory
	}
	args := append([]string{"--cloud-provider=" + name, "--cloud-config=" + conf, "--kubeconfig=" + o.Kubeconfig, "--bind-address=127.0.0.1"}, o.Args...)
	if _, _, err := options.Parse(opts.Flags(), args); err != nil {
		return nil, err
	}
	if err := opts.Validate([]string{name}); err != nil {
		return nil, err
	}
	if opts.Serving.Listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	m.Address = opts.Serving.Listener.Addr().String()
	manager, err := ccm.New(ctx, opts)
	if err != nil {
		return nil, err
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 10 * time.Second
	}
	p, _, err := factory(ctx, conf, cloud.Options{RequestTimeout: o.RequestTimeout, Kube: manager.Kube()})
	if err != nil {
		return nil, err
	}
	d, err := decorate.New(p, o.Decorate)
	if err != nil {
		return nil, err
	}
	return func() error { return manager.Run(ctx, d) }, nil
}
