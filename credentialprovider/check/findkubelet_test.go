package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

// The kubelet that runs is found by its command line, and its environment is the providers'.
func TestFindKubelet(t *testing.T) {
	proc := t.TempDir()
	process := func(pid, cmdline, environ string) {
		t.Helper()
		dir := filepath.Join(proc, pid)
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as in /proc
			t.Fatal(err)
		}
		for file, content := range map[string]string{"cmdline": cmdline, "environ": environ} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.ReplaceAll(content, " ", "\x00")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	process("self", "kubelet --wrong", "")
	process("1", "/sbin/init ", "")
	if got, ok := findKubelet(proc); ok {
		t.Errorf("found %+v", got)
	}
	process("42", "/usr/bin/kubelet --v=2 --image-credential-provider-config=/old --image-credential-provider-config /etc/c.yaml -image-credential-provider-bin-dir=/bin/cp ", "A=b C=d ")
	got, ok := findKubelet(proc)
	if want := (runningKubelet{pid: 42, config: "/etc/c.yaml", binDir: "/bin/cp", environ: []string{"A=b", "C=d"}, program: filepath.Join(proc, "42", "exe")}); !ok || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %+v, want %+v", got, want)
	}

	c := Check{options: Options{BinDir: "/other"}}
	if err := c.prepare(proc); err != nil || c.options.KubeletConfig != "/etc/c.yaml" || c.options.BinDir != "/other" || len(c.environ) != 2 || len(c.findings) != 1 || !strings.Contains(c.findings[0].Cause, "has --image-credential-provider-bin-dir=/bin/cp, which is not what is looked at") {
		t.Errorf("%v, %+v", err, c)
	}
	process("42", "kubelet --v=2 ", "")
	c = Check{}
	if err := c.prepare(proc); err == nil || !strings.Contains(err.Error(), "it runs no provider; start it with both") {
		t.Errorf("without the flags: %v", err)
	}
	process("42", "kubelet --image-credential-provider-config=/etc/c.yaml --image-credential-provider-bin-dir=/bin/cp ", "A=b ")
	c = Check{options: Options{KubeletConfig: "/a", BinDir: "/b"}, environ: []string{"OWN=1"}}
	if err := c.prepare(proc); err != nil || len(c.findings) != 0 || fmt.Sprint(c.environ) != "[OWN=1]" {
		t.Errorf("with both given, a kubelet that runs here has a say: %v, %v, %v", err, c.findings, c.environ)
	}
	c = Check{}
	if err := c.prepare(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no kubelet runs here; give --kubelet-config and --bin-dir") {
		t.Errorf("no kubelet: %v", err)
	}
}

// An older kubelet takes neither tokenAttributes nor a directory.
func TestCheckKubeletVersion(t *testing.T) {
	proc := t.TempDir()
	running := runningKubelet{pid: 42, program: filepath.Join(proc, "exe")}
	entries := []kubelet.Entry{{Name: "a", TokenAttributes: &kubelet.TokenAttributes{}}, {Name: "b"}}
	for said, want := range map[string]int{"Kubernetes v1.37.1": 0, "Kubernetes v1.34.0-beta.1": 0, "Kubernetes v1.33.4": 2, "Kubernetes v1.29.0": 2, "something else": 0} {
		if err := os.WriteFile(running.program, []byte("#!/bin/sh\necho '"+said+"'\n"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		c := Check{kubelet: running, options: Options{KubeletConfig: proc}}
		c.version(t.Context(), entries)
		if len(c.findings) != want || want > 0 && !strings.Contains(c.findings[1].String(), `provider "a": tokenAttributes: the kubelet that runs here is v1.`) {
			t.Errorf("%s: %v", said, c.findings)
		}
	}
	c := Check{}
	if c.version(t.Context(), entries); len(c.findings) != 0 {
		t.Errorf("no kubelet runs: %v", c.findings)
	}
}
