package differential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say what a Manager is and where it works.
type Options struct {
	// Binary is its path.
	Binary string
	// Kubeconfig and CloudConf are the paths of its files.
	Kubeconfig, CloudConf string
	// Cloud is the value of --cloud-provider.
	Cloud string
	// Controllers are those that run; all without.
	Controllers []string
	// Workers is how many Services it works on at a time; its default without.
	Workers int
	// Args are further flags, Env further variables of its environment.
	Args, Env []string
}

// Manager is a running cloud controller manager.
type Manager struct {
	cmd   *exec.Cmd
	log   *output
	ended chan struct{}
	err   error // of the process; readable once ended is closed
}

// Start starts the binary. The caller must Stop it.
func Start(ctx context.Context, o Options) (*Manager, error) {
	args := []string{
		"--cloud-provider=" + o.Cloud, "--cloud-config=" + o.CloudConf, "--kubeconfig=" + o.Kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=1000", "--v=2",
	}
	if len(o.Controllers) > 0 {
		args = append(args, "--controllers="+strings.Join(o.Controllers, ","))
	}
	if o.Workers > 0 {
		args = append(args, fmt.Sprintf("--concurrent-service-syncs=%d", o.Workers))
	}
	m := &Manager{log: &output{}, ended: make(chan struct{})}
	m.cmd = exec.CommandContext(context.WithoutCancel(ctx), o.Binary, append(args, o.Args...)...) //nolint:gosec // the caller's choice
	m.cmd.Env = append(os.Environ(), o.Env...)
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Binary, err)
	}
	go func() {
		defer close(m.ended)
		m.err = m.cmd.Wait()
	}()
	return m, nil
}

// Ended is closed when the process has ended, be it by Stop or by itself.
func (m *Manager) Ended() <-chan struct{} { return m.ended }

// Log is what it has printed.
func (m *Manager) Log() string { return m.log.String() }

// Stop ends it. It is an error when it had ended by itself before.
func (m *Manager) Stop() error {
	select {
	case <-m.ended:
		return fmt.Errorf("%s had ended: %w; it printed:\n%s", m.cmd.Path, orNil(m.err), m.Log())
	default:
	}
	err := m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.ended:
	case <-time.After(15 * time.Second):
		err = errors.Join(err, m.cmd.Process.Kill())
		<-m.ended
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", m.cmd.Path, err)
	}
	return nil
}

// Kill ends it at once, as the failure of its machine does. It must not be stopped after that.
func (m *Manager) Kill() {
	_ = m.cmd.Process.Kill() // or it has ended by itself
	<-m.ended
}

func orNil(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

// version is what a manager answers to --version, with or without a name before it.
var version = regexp.MustCompile(`v?\d+\.\d+[^\s]*|v?0\.0\.0[^\s]*|[0-9a-f]{7,40}`)

// Version is the version that a binary tells of itself.
func Version(ctx context.Context, binary string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, "--version").CombinedOutput() //nolint:gosec // the caller's choice
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w: %s", binary, err, bytes.TrimSpace(out))
	}
	if v := version.FindString(string(out)); v != "" {
		return v, nil
	}
	return strings.TrimSpace(string(out)), nil
}

// output keeps what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
