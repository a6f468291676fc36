package main

import (
	"bufio"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/credentialprovider/rollout"
)

// target is a folder with what is to be installed, and where to.
type target struct{ from, binDir, configDir string }

func newTarget(t *testing.T, files map[string]string) target {
	t.Helper()
	dir := t.TempDir()
	n := target{filepath.Join(dir, "from"), filepath.Join(dir, "bin"), filepath.Join(dir, "etc")}
	if err := os.Mkdir(n.from, 0o755); err != nil {
		t.Fatal(err)
	}
	n.set(t, files)
	return n
}

// set writes files into from, with the node's folders in place of BIN and ETC.
func (n target) set(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		content = strings.NewReplacer("ETC", n.configDir, "BIN", n.binDir).Replace(content)
		if err := os.WriteFile(filepath.Join(n.from, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// remove removes a file from the node.
func (n target) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(n.configDir, name)); err != nil {
		t.Fatal(err)
	}
}

func (n target) args(more ...string) []string {
	return append([]string{"install", "--bin-dir", n.binDir, "--config-dir", n.configDir, "--from", n.from}, more...)
}

// plain hides the node's folders.
func (n target) plain(text string) string {
	return strings.NewReplacer(n.from, "FROM", n.binDir, "BIN", n.configDir, "ETC").Replace(text)
}

// goodFiles are a configuration of two entries.
func goodFiles() map[string]string {
	entry := func(name, image, args, more string) string {
		return "- name: " + name + "\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: ['" + image + "']\n  defaultCacheDuration: 10m\n  args: [" + args + "]\n" + more
	}
	return map[string]string{
		rollout.ConfigFile: "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
			entry(name, "registry.example.com:5000", "--config=ETC/options.yaml", "") +
			entry(name+"-ecr", "*.dkr.ecr.*.amazonaws.com", "--registries=ecr, --identity=serviceAccount",
				"  tokenAttributes: {serviceAccountTokenAudience: sts.amazonaws.com, cacheType: ServiceAccount, requireServiceAccount: true, optionalServiceAccountAnnotationKeys: [isthmus-cloud.github.io/ecr-role-arn]}\n"),
		"options.yaml": configHead + "openstack: {cloudConfig: ETC/cloud.conf}\n",
		"cloud.conf":   "[Global]\nauth-url = https://keystone.example.com/v3\napplication-credential-id = a\napplication-credential-secret = of-the-node\n[Registry \"registry.example.com:5000\"]\ntype = barbican\nsecret = registry\n",
	}
}

func TestInstallOnNode(t *testing.T) {
	n := newTarget(t, goodFiles())
	got := execute(t, "", n.args()...)
	want := "BIN/isthmus-credential-provider installed\nBIN/isthmus-credential-provider-ecr installed\nETC/cloud.conf installed\nETC/options.yaml installed\nETC/credential-provider.yaml installed\n" +
		"restart the kubelet: it reads ETC/credential-provider.yaml when it starts\n"
	if diff := cmp.Diff(want, n.plain(got.stdout)); diff != "" || got.code != 0 || got.stderr != "" {
		t.Fatalf("exit %d, %s (-want +got):\n%s", got.code, got.stderr, diff)
	}
	for file, mode := range map[string]fs.FileMode{n.binDir + "/" + name: 0o755, n.configDir + "/cloud.conf": 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	// What was installed is what check wants, and runs under its other name.
	if got := execute(t, "", "check", "--kubelet-config", filepath.Join(n.configDir, rollout.ConfigFile), "--bin-dir", n.binDir); got.code != 0 {
		t.Errorf("check: exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(n.binDir, name+"-ecr"), "--version").Output(); err != nil || !strings.Contains(string(out), versionSet) {
		t.Errorf("the link: %s, %v", out, err)
	}
	if got := execute(t, "", n.args()...); got.code != 0 || n.plain(got.stdout) != "isthmus-credential-provider and its configuration are as they should be in BIN and ETC\n" {
		t.Errorf("again: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
	// A new login takes no restart.
	n.set(t, map[string]string{"cloud.conf": strings.Replace(goodFiles()["cloud.conf"], "of-the-node", "rotated", 1)})
	if got := execute(t, "", n.args()...); got.code != 0 || n.plain(got.stdout) != "ETC/cloud.conf installed\n" {
		t.Errorf("a new login: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
}

// Each mistake is told before anything is written.
func TestInstallRefuses(t *testing.T) {
	config := goodFiles()[rollout.ConfigFile]
	for mistake, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  string
	}{
		"no configuration":  {map[string]string{rollout.ConfigFile: ""}, nil, "credential-provider.yaml"},
		"unknown key":       {map[string]string{rollout.ConfigFile: strings.Replace(config, "matchImages", "matchImage", 1)}, nil, "matchImage"},
		"unknown flag":      {map[string]string{rollout.ConfigFile: strings.Replace(config, "--registries", "--registry", 1)}, nil, `provider "isthmus-credential-provider-ecr": args: the program does not take them`},
		"broken options":    {map[string]string{"options.yaml": configHead + "openstak: {}\n"}, nil, "openstak"},
		"broken cloud.conf": {map[string]string{"cloud.conf": "[Global\n"}, nil, "cloud.conf"},
		"missing file":      {map[string]string{"options.yaml": configHead + "openstack: {cloudConfig: /nowhere/else.conf}\n"}, nil, "/nowhere/else.conf"},
		"missing tokens":    {map[string]string{rollout.ConfigFile: config[:strings.Index(config, "  tokenAttributes")]}, nil, "tokenAttributes"},
		"wrong image":       {map[string]string{rollout.ConfigFile: strings.Replace(config, "registry.example.com:5000", "registry.example.com", 1)}, nil, "matchImages"},
		"options elsewhere": {map[string]string{rollout.ConfigFile: strings.Replace(config, "ETC/options.yaml", "/nowhere/options.yaml", 1)}, nil, "/nowhere/options.yaml is named, but options.yaml goes to ETC/options.yaml; write that"},
		"login elsewhere":   {map[string]string{"options.yaml": configHead + "openstack: {cloudConfig: /nowhere/cloud.conf}\n"}, nil, "/nowhere/cloud.conf is named, but cloud.conf goes to ETC/cloud.conf; write that"},
		"another program":   {map[string]string{rollout.ConfigFile: strings.Replace(config, "name: "+name+"-ecr", "name: ecr-credential-provider", 1)}, nil, "there is no BIN/ecr-credential-provider"},
		"none of ours":      {map[string]string{rollout.ConfigFile: strings.ReplaceAll(config, "name: "+name, "name: x")}, nil, "x"},
		"relative":          {nil, []string{"--bin-dir", "bin"}, "--bin-dir \"bin\" has to be an absolute path"},
		"same directory":    {map[string]string{rollout.ConfigFile: strings.ReplaceAll(config, "ETC", "BIN"), "options.yaml": configHead + "openstack: {cloudConfig: BIN/cloud.conf}\n"}, []string{"--config-dir", "BIN"}, "are to be in the same directory"},
		"unit":              {nil, []string{"--restart-unit", "-x"}, "--restart-unit"},
		"argument":          {nil, []string{"now"}, `unexpected argument "now"`},
	} {
		t.Run(mistake, func(t *testing.T) {
			t.Parallel()
			n := newTarget(t, goodFiles())
			n.set(t, tt.files)
			for i, a := range tt.args {
				tt.args[i] = strings.ReplaceAll(a, "BIN", n.binDir)
			}
			got := execute(t, "", n.args(tt.args...)...)
			if got.code == 0 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(n.plain(got.stderr), tt.want) {
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", got.code, got.stdout, got.stderr, tt.want)
			}
			if strings.Contains(got.stderr, "of-the-node") {
				t.Error("a secret is in the error")
			}
			if _, err := os.Stat(filepath.Join(n.binDir, name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was installed: %v", err)
			}
		})
	}
}

// Files that cloud.conf names are read in the folder when they are not on the node yet.
func TestInstallFilesOfCloudConf(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	files := goodFiles()
	files["cloud.conf"] = strings.Replace(files["cloud.conf"], "[Registry", "ca-file = ETC/ca.pem\n[Registry", 1)
	files["ca.pem"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	n := newTarget(t, files)
	if got := execute(t, "", n.args()...); got.code != 0 || !strings.Contains(n.plain(got.stdout), "ETC/ca.pem installed\n") {
		t.Errorf("exit %d: %s%s", got.code, n.plain(got.stdout), n.plain(got.stderr))
	}
	n.set(t, map[string]string{"ca.pem": "none"})
	if got := execute(t, "", n.args()...); got.code != exitFailed || !strings.Contains(n.plain(got.stderr), "ca-file FROM/ca.pem holds no certificate") {
		t.Errorf("a bad file: exit %d: %s", got.code, n.plain(got.stderr))
	}
}

// With --every it follows what changes, and ends when it is told to.
func TestInstallEvery(t *testing.T) {
	n := newTarget(t, goodFiles())
	cmd := exec.CommandContext(t.Context(), builtBinary(t), n.args("--every", "50ms")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatalf("it ended: %v, %s", lines.Err(), stderr.String())
		}
		return n.plain(lines.Text())
	}
	for range 6 {
		next()
	}
	n.set(t, map[string]string{"cloud.conf": strings.Replace(goodFiles()["cloud.conf"], "of-the-node", "rotated", 1)})
	if got := next(); got != "ETC/cloud.conf installed" {
		t.Errorf("after a change it says %q", got)
	}
	if data, err := os.ReadFile(filepath.Join(n.configDir, "cloud.conf")); err != nil || !strings.Contains(string(data), "rotated") {
		t.Errorf("cloud.conf: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, stderr.String())
	}
}

// A ConfigMap's folder is read through its link ..data, as of one moment.
func TestInstallFromConfigMap(t *testing.T) {
	n := newTarget(t, nil)
	moment := target{from: filepath.Join(n.from, "..2026_01_01"), binDir: n.binDir, configDir: n.configDir}
	if err := errors.Join(os.Mkdir(moment.from, 0o755), os.Symlink("..2026_01_01", filepath.Join(n.from, "..data"))); err != nil {
		t.Fatal(err)
	}
	moment.set(t, goodFiles())
	for file := range goodFiles() {
		if err := os.Symlink("..data/"+file, filepath.Join(n.from, file)); err != nil {
			t.Fatal(err)
		}
	}
	if got := execute(t, "", n.args()...); got.code != 0 || strings.Count(got.stdout, "installed\n") != 5 {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
}

// A restart that fails is told, and tried again by the next run, though that has nothing to install.
func TestInstallRestartFails(t *testing.T) {
	n := newTarget(t, goodFiles())
	nowhere := t.TempDir() // a root without a systemctl
	for _, when := range []string{"first", "again"} {
		got := execute(t, "", n.args("--restart-unit", "isthmus-none.service", "--host-root", nowhere)...)
		if got.code != exitFailed || !strings.Contains(got.stderr, "all is installed, but systemctl restart isthmus-none.service fails") || strings.Contains(got.stdout, "installed") != (when == "first") {
			t.Errorf("%s: exit %d, %s%s", when, got.code, got.stdout, got.stderr)
		}
	}
	if got := execute(t, "", n.args()...); got.code != 0 {
		t.Errorf("without a restart: exit %d, %s", got.code, got.stderr)
	}
}
