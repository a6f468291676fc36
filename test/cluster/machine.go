package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Machine is one machine: namespaces of its own for mounts, processes, network and name, joined to
// the cloud's network, and a disk that outlives them.
type Machine struct {
	// Name is its hostname, its Node's name and its server's name in the cloud.
	Name string
	// Address is its address in the cloud's network.
	Address netip.Addr

	env   *environment
	index int
	disk  string
	first *exec.Cmd // the first process; nil while the power is off
	boots int
}

// newMachine prepares a machine, whose power is off.
func newMachine(env *environment, name string, index int, address netip.Addr) *Machine {
	return &Machine{Name: name, Address: address, env: env, index: index, disk: filepath.Join(env.dir, "machines", name)}
}

// powerOn boots the machine: its first process, and its network. What it runs is started with Start.
func (m *Machine) powerOn(ctx context.Context) error {
	if m.first != nil {
		return fmt.Errorf("machine %s is on", m.Name)
	}
	if err := os.MkdirAll(m.disk, 0o755); err != nil {
		return err
	}
	m.boots++
	log, err := m.env.log(m.Name, "boot", m.boots)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(filepath.Join(m.env.root, "hack/sandbox/machine.sh"), m.disk) //nolint:noctx // it lives until PowerOff
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Setpgid:    true, // Ctrl-C is for us
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("boot machine %s: %w", m.Name, err)
	}
	m.first = cmd
	if err := m.connect(ctx); err != nil {
		return errors.Join(fmt.Errorf("network of machine %s: %w", m.Name, err), m.PowerOff()) //nolint:contextcheck // the power goes off also where ctx has ended
	}
	err = poll(ctx, 20*time.Second, func(context.Context) error {
		_, err := os.Stat(m.path("/run/booted"))
		return err
	})
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return errors.Join(fmt.Errorf("machine %s does not boot: %w: %s", m.Name, err, said), m.PowerOff()) //nolint:contextcheck // the power goes off also where ctx has ended
	}
	return nil
}

// connect gives the machine its address, by a cable to the cloud's bridge.
func (m *Machine) connect(ctx context.Context) error {
	pid, end := strconv.Itoa(m.first.Process.Pid), m.port()
	if err := m.env.run(ctx, "ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", pid); err != nil {
		return err
	}
	if err := m.env.run(ctx, "ip", "link", "set", end, "master", bridge, "up"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "set", "eth0", "up"},
		{"address", "add", fmt.Sprintf("%s/%d", m.Address, tenant.Bits()), "dev", "eth0"},
		{"route", "add", "default", "via", gateway.String()},
	} {
		if err := m.env.run(ctx, "nsenter", append([]string{"--target", pid, "--net", "--", "ip"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// port is the end of the machine's cable at the bridge.
func (m *Machine) port() string { return fmt.Sprintf("port%d", m.index) }

// PowerOff ends all processes of the machine at once, as SIGKILL does, and its network. Its disk stays.
func (m *Machine) PowerOff() error {
	if m.first == nil {
		return nil
	}
	err := m.first.Process.Kill()
	_ = m.first.Wait() // killed
	m.first = nil
	// The kernel removes the namespace, and the cable with it, when it finds time; the next boot needs its name at once.
	if cut := m.env.run(context.Background(), "ip", "link", "del", m.port()); cut != nil && !strings.Contains(cut.Error(), "Cannot find device") {
		err = errors.Join(err, cut)
	}
	return err
}

// path is the path from outside of a file of the running machine.
func (m *Machine) path(file string) string {
	return filepath.Join("/proc", strconv.Itoa(m.first.Process.Pid), "root", file)
}

// Write writes a file on the machine, with mode 0600, and its folders.
func (m *Machine) Write(file, content string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(m.path(file)), 0o755), os.WriteFile(m.path(file), []byte(content), 0o600))
}

// command is a command in the machine.
func (m *Machine) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(m.first.Process.Pid), "--mount", "--pid", "--net", "--ipc", "--uts", "--", m.env.program(program)}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// As a service manager has it, without the user's settings.
	cmd.Env = []string{"PATH=" + m.env.bin + ":/usr/sbin:/usr/bin:/sbin:/bin", m.env.libraries()}
	return cmd
}

// Run runs a program of the sandbox, or of a path, in the machine to its end.
func (m *Machine) Run(ctx context.Context, program string, args ...string) (string, error) {
	if m.first == nil {
		return "", fmt.Errorf("machine %s is off", m.Name)
	}
	out, err := m.command(ctx, program, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s on %s: %w: %s", program, m.Name, err, tail(out, 2<<10))
	}
	return string(out), err
}

// Start starts a program in the machine, which runs until it ends or the power is off, whatever becomes of ctx.
// What it writes is in a file of Logs.
func (m *Machine) Start(ctx context.Context, program string, args ...string) error {
	log, err := m.env.log(m.Name, program, m.boots)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := m.command(context.WithoutCancel(ctx), program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s on %s: %w", program, m.Name, err)
	}
	go func() {
		_ = cmd.Wait() // its log says more
		_, _ = io.WriteString(m.env.events, fmt.Sprintf("%s on %s ended: %s\n", program, m.Name, cmd.ProcessState))
	}()
	return nil
}

// KillPod kills all processes of a pod (SIGKILL), as the kernel does when memory is short, and says how
// many there were.
func (m *Machine) KillPod(uid string) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	killed := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		group, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		if err != nil || !strings.Contains(string(group), "/pod"+uid+"/") {
			continue // it has ended, or is somebody else's
		}
		if command, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm")); string(command) == "pause\n" {
			continue // the pod's sandbox is not what fails
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			killed++
		}
	}
	if killed == 0 {
		return 0, fmt.Errorf("pod %s has no process", uid)
	}
	return killed, nil
}

// poll calls check until it returns nil, at most for limit; the last answer is the error.
func poll(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("after %s: %w", limit, last)
	}
	return err
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
