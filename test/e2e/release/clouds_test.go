//go:build e2e

package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Binaries without a cloud say that they do not know it, wherever it is named.
func TestFewerClouds(t *testing.T) {
	dir := t.TempDir()
	build := func(tags, command string) string {
		file := filepath.Join(dir, command)
		cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", tags, "-ldflags", "-s -w", "-o", file, "./cmd/"+command)
		cmd.Dir = repository
		run(t, cmd)
		return file
	}
	provider, manager := build("no_aws,no_gcp", "credential-provider"), build("no_openstack", "cloud-controller-manager")
	options := filepath.Join(dir, "options.yaml")
	write := func(section string) []string {
		if err := os.WriteFile(options, []byte("apiVersion: isthmus-cloud.github.io/v1\nkind: CredentialProviderOptions\nacr:\n"+section+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"config", "--config", options, "--node-config-path=/etc/options.yaml"}
	}
	for _, tc := range []struct {
		args []string
		want string // "" where all is well
	}{
		{[]string{provider, "config", "--registries=acr"}, ""},
		{[]string{provider, "config", "--registries=acr,ecr"}, `"ecr" is not known; known are acr, openstack`},
		{[]string{manager, "--cloud-provider=openstack"}, `"openstack" is not a cloud of this binary`},
	} {
		out, err := exec.CommandContext(t.Context(), tc.args[0], tc.args[1:]...).CombinedOutput()
		if (err == nil) != (tc.want == "") || !strings.Contains(string(out), tc.want) {
			t.Errorf("%q: %v, %s; want %q", tc.args, err, out, tc.want)
		}
	}
	if out, err := exec.CommandContext(t.Context(), provider, write("")...).CombinedOutput(); err != nil {
		t.Errorf("with what is there alone: %v, %s", err, out)
	}
	for _, section := range []string{"ecr: {}", "ecr:", "artifactregistry: {identity: node}"} {
		out, err := exec.CommandContext(t.Context(), provider, write(section)...).CombinedOutput()
		key, _, _ := strings.Cut(section, ":")
		if err == nil || !strings.Contains(string(out), `the key "`+key+`" is not known here`) {
			t.Errorf("%s: %v, %s", section, err, out)
		}
	}
}
