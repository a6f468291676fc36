package controlplane

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// certManagerKinds are those of cert-manager's CRDs that InstallCertManager installs. The
// others are ACME's.
var certManagerKinds = []string{"certificaterequests", "certificates", "clusterissuers", "issuers"}

// InstallCertManager installs the CRDs of cert-manager's module.
func InstallCertManager(t testing.TB, c *ControlPlane) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	if err != nil {
		t.Fatalf("cert-manager's module: %v", err)
	}
	var paths []string
	for _, kind := range certManagerKinds {
		paths = append(paths, filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds", "cert-manager.io_"+kind+".yaml"))
	}
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: paths, ErrorIfPathMissing: true}); err != nil {
		t.Fatalf("cert-manager's CRDs: %v", err)
	}
}

// StartCertManager runs cert-manager's controllers and cainjector (see hack/tools/cert-manager)
// until the test ends. Its own webhooks are not needed: they only validate, and CRDs of one
// version are not converted.
func StartCertManager(t testing.TB, c *ControlPlane) {
	t.Helper()
	assets, err := assetsDir()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(assets, "cert-manager")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("no cert-manager in %s: run `make bin/cert-manager`", assets)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := WriteKubeconfig(kubeconfig, c.Config); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command(binary, "--kubeconfig="+kubeconfig) //nolint:gosec,noctx // our own binary, ended below
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatalf("start cert-manager: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("cert-manager ended with %v and wrote: %s", err, output.Bytes()[max(0, output.Len()-8<<10):])
		}
	})
}
