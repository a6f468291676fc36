//go:build e2e

package kubelet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"k8s.io/klog/v2"
)

// The environment that hack/sandbox/e2e.sh makes: namespaces of our own for mounts, processes
// and network, with folders in memory that end with them, and a cgroup.
const (
	// binVariable is the folder with what is run: the Debian programs (containerd, …), the kubelet, our
	// program and pause.
	binVariable = "ISTHMUS_E2E_BIN"
	// cgroup is the cgroup that the kubelet puts pods in.
	cgroup = "/isthmus-e2e"
	// nodeIP is an address of the namespace; the kubelet wants one that is not loopback.
	nodeIP = "192.0.2.10"
	// state is where the node keeps its files.
	state = "/run/isthmus-e2e"
)

func TestMain(m *testing.M) {
	if os.Getenv(binVariable) == "" {
		fmt.Fprintln(os.Stderr, "these tests run a kubelet and a containerd as root, in namespaces of their own: run `make e2e-kubelet`")
		os.Exit(1)
	}
	ctrl.SetLogger(klog.Background())
	os.Exit(m.Run())
}

// program is the path of a program of binVariable.
func program(name string) string { return filepath.Join(os.Getenv(binVariable), name) }

// process is a running program.
type process struct {
	name  string
	log   string // file with what it wrote
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a program, which ends with the test. If the test fails, the end of what it wrote is
// shown. name is for its log.
func start(t *testing.T, name, file string, args ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(state, name+".log"), ended: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(program(file), args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = []string{"PATH=" + os.Getenv(binVariable) + ":/usr/sbin:/usr/bin:/sbin:/bin"} // as a service manager has it, without the user's settings
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its output says more
		_ = out.Close()
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, tail(p.output(t), 4<<10))
		}
	})
	return p
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

func (p *process) output(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(p.log)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// ready waits until check succeeds.
func (p *process) ready(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-p.ended:
			t.Fatalf("%s ended by itself: %s", p.name, tail(p.output(t), 4<<10))
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not ready after a minute: %v", p.name, err)
		}
	}
}

// run runs a program to its end and returns what it wrote.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(name), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, tail(out.String(), 2<<10))
	}
	return out.String(), err
}

// write writes a file below state and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(state, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
