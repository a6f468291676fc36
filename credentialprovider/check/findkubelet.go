package check

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// runningKubelet is what the kubelet of this machine was started with.
type runningKubelet struct {
	pid            int
	config, binDir string
	environ        []string // nil if it may not be read
	program        string
}

// minorVersion asks the program which minor version of Kubernetes 1 it is; 0 if it does not tell.
func (r runningKubelet) minorVersion(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, r.program, "--version").Output() //nolint:gosec // the kubelet that runs here
	rest, ok := strings.CutPrefix(string(out), "Kubernetes v1.")
	if err != nil || !ok {
		return 0
	}
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	if err != nil {
		return 0
	}
	return n
}

// findKubelet looks for a kubelet among the processes in proc. It finds none where the kubelet is part
// of another program.
func findKubelet(proc string) (runningKubelet, bool) {
	list, err := os.ReadDir(proc)
	if err != nil {
		return runningKubelet{}, false
	}
	for _, dir := range list {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		args := nulSeparated(filepath.Join(proc, dir.Name(), "cmdline"))
		if len(args) == 0 || filepath.Base(args[0]) != "kubelet" {
			continue
		}
		return runningKubelet{
			pid:     pid,
			config:  flagOf(args, "image-credential-provider-config"),
			binDir:  flagOf(args, "image-credential-provider-bin-dir"),
			environ: nulSeparated(filepath.Join(proc, dir.Name(), "environ")),
			program: filepath.Join(proc, dir.Name(), "exe"),
		}, true
	}
	return runningKubelet{}, false
}

func nulSeparated(file string) []string {
	data, err := os.ReadFile(file)
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(data), "\x00"), "\x00")
}

// flagOf returns the value of a flag, the last if it is there twice.
func flagOf(args []string, name string) string {
	value := ""
	for i, arg := range args {
		key, v, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		switch {
		case key != name || !strings.HasPrefix(arg, "-"):
		case hasValue:
			value = v
		case i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}
