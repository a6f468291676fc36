package controlplane

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ControllerManager is a running kube-controller-manager.
type ControllerManager struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	output bytes.Buffer // to be read after its end
}

// StartControllerManager starts a real kube-controller-manager with all rights (make
// bin/kube-controller-manager) and args beside those that it needs to run. It ends with the
// test if it was not stopped before.
func (c *ControlPlane) StartControllerManager(t testing.TB, args ...string) *ControllerManager {
	t.Helper()
	assets, err := assetsDir()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(assets, "kube-controller-manager")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("no kube-controller-manager in %s: run `make bin/kube-controller-manager`", assets)
	}
	dir := t.TempDir()
	kubeconfig, key := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "service-account.key")
	if err := WriteKubeconfig(kubeconfig, c.Config); err != nil {
		t.Fatal(err)
	}
	if err := writeKey(key); err != nil {
		t.Fatal(err)
	}
	m := &ControllerManager{ended: make(chan struct{})}
	m.cmd = exec.Command(binary, append([]string{ //nolint:gosec,noctx // our own binary, ended by Stop
		"--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=0", "--use-service-account-credentials=false",
		"--service-account-private-key-file=" + key,
	}, args...)...)
	m.cmd.Stdout, m.cmd.Stderr = &m.output, &m.output
	if err := m.cmd.Start(); err != nil {
		t.Fatalf("start kube-controller-manager: %v", err)
	}
	go func() {
		defer close(m.ended)
		_ = m.cmd.Wait() // its output says more
	}()
	t.Cleanup(func() {
		m.Stop()
		if t.Failed() {
			t.Logf("kube-controller-manager wrote: %s", m.output.Bytes()[max(0, m.output.Len()-4<<10):])
		}
	})
	return m
}

// Stop ends it as the kubelet does, or kills it after half a minute, and waits.
func (m *ControllerManager) Stop() {
	_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	if _, ended := m.Wait(30 * time.Second); !ended {
		_ = m.cmd.Process.Kill()
		<-m.ended
	}
}

// Wait waits for its end by itself and returns what it wrote.
func (m *ControllerManager) Wait(limit time.Duration) (output string, ended bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-m.ended:
		return m.output.String(), true
	case <-timer.C:
		return "", false
	}
}

// writeKey writes a new key that ServiceAccount tokens could be signed with.
func writeKey(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("key of ServiceAccounts: %w", err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}
