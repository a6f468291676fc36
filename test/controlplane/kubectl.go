package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Tool returns the path of a tool that lies beside kube-apiserver, as make builds it.
func Tool(t testing.TB, name string) string {
	t.Helper()
	assets, err := assetsDir()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(assets, name)
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("no %s in %s: run `make bin/%s`", name, assets, name)
	}
	return binary
}

// Kubectl returns a function that runs kubectl with all rights: with what it reads from its
// standard input, and what it prints on both outputs. kubectl lies beside kube-apiserver.
func (c *ControlPlane) Kubectl(t testing.TB) func(ctx context.Context, input string, args ...string) (output string, err error) {
	t.Helper()
	binary, dir := Tool(t, "kubectl"), t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := WriteKubeconfig(kubeconfig, c.Config); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, input string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, binary, append([]string{"--kubeconfig", kubeconfig, "--cache-dir", dir}, args...)...) //nolint:gosec // our own binary
		cmd.Env = append(os.Environ(), "HOME="+dir, "NO_COLOR=1")
		var out bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
		if err := cmd.Run(); err != nil {
			return out.String(), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
		}
		return out.String(), nil
	}
}
