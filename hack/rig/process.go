package rig

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a running controller manager.
type Process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
	err   error // how it ended; readable once ended is closed

	memory int64 // see Used; known once it was stopped
}

// StartProcess runs a binary with its output appended to the file log. env are variables beside those of this process.
func StartProcess(binary, log string, env []string, args ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(binary, args...), log: log, ended: make(chan struct{})} //nolint:gosec,noctx // the caller's choice; ends by Stop
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(os.Environ(), env...)
	// Ctrl-C goes to the whole foreground process group: the child has one of its own.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = p.cmd.Start()
	_ = out.Close() // the child has it
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Alive is an error once the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.ended:
		return errors.Join(fmt.Errorf("%s ended by itself; the end of its log:\n%s", filepath.Base(p.cmd.Path), p.tail()), p.err)
	default:
		return nil
	}
}

// Stop ends the process: SIGTERM first, SIGKILL after half a minute. It may be called again.
func (p *Process) Stop() {
	p.memory = p.Peak()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // gone already is fine
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// Peak is the most memory at a time of a running process, 0 where there is no /proc. What the kernel accounts
// for an ended child is no less than what this program had when it started it.
func (p *Process) Peak() int64 { return p.memoryOf("VmHWM:") }

// memoryOf is a value of /proc/PID/status.
func (p *Process) memoryOf(key string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), key)
	var kibibytes int64
	if _, err := fmt.Sscan(after, &kibibytes); err != nil {
		return 0
	}
	return kibibytes << 10
}

// ticks is how many units of CPU time in /proc make a second.
const ticks = 100

// Now is the CPU time that a running process has used so far, and the memory that it has; nothing where there is no /proc.
func (p *Process) Now() Usage {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if err != nil || len(fields) < 13 {
		return Usage{}
	}
	var sum time.Duration
	for _, f := range fields[11:13] { // utime and stime
		if n, err := strconv.ParseInt(f, 10, 64); err == nil {
			sum += time.Duration(n) * time.Second / ticks
		}
	}
	return Usage{CPU: sum, Memory: p.memoryOf("VmRSS:")}
}

// Used is what a stopped process has used.
func (p *Process) Used() Usage {
	state := p.cmd.ProcessState
	return Usage{CPU: state.UserTime() + state.SystemTime(), Memory: p.memory}
}

// Usage is CPU time, and the most memory at a time in bytes.
type Usage struct {
	CPU    time.Duration
	Memory int64
}

// Plus is what two processes one after the other have used.
func (u Usage) Plus(v Usage) Usage { return Usage{CPU: u.CPU + v.CPU, Memory: max(u.Memory, v.Memory)} }

func (p *Process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	return strings.ToValidUTF8(string(data[max(0, len(data)-most):]), "")
}

// VersionOf is the version that a binary tells of itself or, where it knows none, the Kubernetes that it is
// built on and the beginning of its digest.
func VersionOf(ctx context.Context, binary string) (string, error) {
	out, err := exec.CommandContext(ctx, binary, "--version").CombinedOutput() //nolint:gosec // the caller's choice
	if err != nil {
		return "", fmt.Errorf("%s --version: %w: %s", binary, err, strings.TrimSpace(string(out)))
	}
	if v := strings.TrimSpace(string(out)); !strings.Contains(v, "v0.0.0") && !strings.Contains(v, "Format") {
		return v, nil
	}
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", binary, err)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s without a version, SHA-256 %.6x…, %s", built.Main.Path, sha256.Sum256(data), built.GoVersion)
	for _, m := range built.Deps {
		if m.Path == "k8s.io/cloud-provider" {
			text += ", " + m.Path + " " + m.Version
		}
	}
	return text, nil
}

// Build builds our manager as make does.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "cloud-controller-manager")
	version := "unknown"
	if out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output(); err == nil {
		version = strings.TrimSpace(string(out))
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/isthmus-cloud/isthmus/pkg/version.Version="+version,
		"-o", binary, "github.com/isthmus-cloud/isthmus/cmd/cloud-controller-manager") //nolint:gosec // paths of this program
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return binary, nil
}
