package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider/openstack"
)

// TestInstallGuide runs the guide's commands, in a folder in place of the node's root, and checks that the
// kubelet's flags in it lead to what they have installed.
func TestInstallGuide(t *testing.T) {
	data, err := os.ReadFile("../../docs/guides/install-credential-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := strings.ReplaceAll(string(data), "\\\n", "")
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "files"), 0o755); err != nil {
		t.Fatal(err)
	}
	inRoot := strings.NewReplacer("=/opt", "="+root+"/opt", "=/etc", "="+root+"/etc")
	flags := map[string]string{} // of the kubelet
	var ran []string
	for line := range strings.Lines(guide) {
		words := strings.Fields(inRoot.Replace(line))
		switch {
		case len(words) == 1 && strings.HasPrefix(words[0], "--image-credential-provider-"):
			flag, value, _ := strings.Cut(words[0], "=")
			flags[flag] = value
		case len(words) > 2 && words[0] == name && words[1] != "check":
			cmd := exec.CommandContext(t.Context(), builtBinary(t), words[1:]...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", strings.TrimSpace(line), err, out)
			}
			ran = append(ran, words[1])
		}
	}
	if strings.Join(ran, " ") != "config install config" || len(flags) != 2 {
		t.Fatalf("the guide's commands %v, and the kubelet's flags %v: this test checks too little", ran, flags)
	}
	got := execute(t, "", "check", "--kubelet-config", flags["--image-credential-provider-config"], "--bin-dir", flags["--image-credential-provider-bin-dir"])
	if got.code != 0 {
		t.Errorf("check: exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestOneFolder: what the program takes for granted is where its chart, package and guides put things.
func TestOneFolder(t *testing.T) {
	const folder = "/etc/isthmus/credential-provider"
	if openstack.DefaultCloudConfig != folder+"/cloud.conf" {
		t.Errorf("cloud.conf is looked for at %s", openstack.DefaultCloudConfig)
	}
	for file, want := range map[string]string{
		"../../charts/isthmus/values.yaml":                   "configDir: " + folder,
		"../../hack/packages/nfpm.yaml":                      folder + "/credential-provider.yaml",
		"../../manifests/credential-provider/daemonset.yaml": "--config-dir=" + folder,
		"../../docs/guides/install-credential-provider.md":   folder + "/cloud.conf",
		"../../docs/guides/openstack-registries.md":          folder + "/cloud.conf",
	} {
		if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s does not say %s (%v)", file, want, err)
		}
	}
	if strings.Contains(helpText(), "/etc/kubernetes/cloud.conf") {
		t.Error("--help names another folder")
	}
}
