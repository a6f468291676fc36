package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Backup copies etcd's data as of one moment to a new folder, which is one for Options.DataDir of another control plane. etcd is halted
// meanwhile, and finds in the copy what it would find after a crash then. Options.DataDir must be set. It works on Linux.
func (c *ControlPlane) Backup(dir string) error {
	data := c.env.ControlPlane.Etcd.DataDir
	etcd, err := processWith("--data-dir=" + data)
	if err != nil {
		return err
	}
	if err := etcd.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("halt etcd: %w", err)
	}
	return errors.Join(os.CopyFS(dir, os.DirFS(data)), etcd.Signal(syscall.SIGCONT))
}

// processWith is the process that has an argument.
func processWith(argument string) (*os.Process, error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range all {
		if line, err := os.ReadFile(file); err != nil || !strings.Contains(string(line), "\x00"+argument+"\x00") {
			continue // others, and those that have ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		return os.FindProcess(pid)
	}
	return nil, fmt.Errorf("there is no process with %s", argument)
}
