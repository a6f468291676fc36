package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// outcome is what became of a mutant.
type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
)

// runner tries mutants.
type runner struct {
	timeout time.Duration
	// sound has, by package, what its tests say of the code as it is.
	sound map[string]error
}

// try runs the tests of m's package with m in the code.
func (r *runner) try(ctx context.Context, m *mutant) (outcome, error) {
	err, known := r.sound[m.dir()]
	if !known {
		err = r.goTest(ctx, m.dir())
		r.sound[m.dir()] = err
	}
	if err != nil {
		return "", fmt.Errorf("the tests of %s fail without any mutant, so they say nothing: %w", m.dir(), err)
	}
	dir, err := os.MkdirTemp("", "isthmus-mutate-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	if out, err := command(ctx, "go", "build", "-overlay", overlay, m.dir()).CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile, which kills nothing: %w\n%s", err, out)
	}
	failed := (*exec.ExitError)(nil)
	switch err := r.goTest(ctx, m.dir(), "-overlay", overlay); {
	case err == nil:
		return survived, nil
	case errors.As(err, &failed):
		return killed, nil
	default:
		return "", err
	}
}

// overlay writes m's file with the defect into dir, and what makes the go command take it.
func (m *mutant) overlay(dir string) (string, error) {
	data, err := m.apply(".")
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.FromSlash(m.file))
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(mutated, data, 0o600), os.WriteFile(overlay, replace, 0o600))
}

// goTest runs the tests of the package in dir. Its error has the end of what they wrote.
func (r *runner) goTest(ctx context.Context, dir string, args ...string) error {
	args = append([]string{"test", "-vet=off", "-count=1", "-failfast", fmt.Sprintf("-timeout=%s", r.timeout)}, args...)
	out, err := command(ctx, "go", append(args, dir)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out[max(0, len(out)-2000):]))
	}
	return nil
}

// command is a command that ends, with all that it has started, when ctx does.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the go command
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
