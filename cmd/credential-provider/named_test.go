package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/credentialprovider/rollout"
)

// Files that are named in files that are named: check and install look at all of them.
func TestTrustOfWhatFilesName(t *testing.T) {
	const azure = "acr: {tenantID: 66666666-7777-8888-9999-000000000000, clientID: 11111111-2222-3333-4444-555555555555, "
	const global = "[Global]\nauth-url = https://keystone.example/v3\nusername = a\npassword = s3cret\ntenant-id = c\nuser-domain-name = d\n"
	const federated = "[Global]\nauth-url = https://keystone.example/v3\ntenant-id = c\nidentity-provider = i\n"
	for what, tt := range map[string]struct {
		images, options, env string            // DIR is the node's directory
		files                map[string]string // in it
		bad                  string            // the file that all can write
		level                kubelet.Level     // "" for nothing
	}{
		"certificate of azure.json": {"*.azurecr.io", "acr: {cloudConfig: DIR/azure.json}", "",
			map[string]string{"azure.json": `{"tenantId": "66666666-7777-8888-9999-000000000000", "aadClientId": "11111111-2222-3333-4444-555555555555", "aadClientCertPath":"DIR/deep"}`}, "deep", kubelet.Problem},
		"token of Google's file": {"*.pkg.dev", "artifactregistry: {credentialsFile: DIR/google.json}", "",
			map[string]string{"google.json": `{"type":"external_account","credential_source":{"file":"DIR/deep"}}`}, "deep", kubelet.Problem},
		"token of cloud.conf": {"registry.example.com:5000", "openstack: {cloudConfig: DIR/cloud}", "",
			map[string]string{"cloud": federated + "access-token-file = \"DIR/deep\"\n" + registries}, "deep", kubelet.Problem},
		"CA of clouds.yaml": {"registry.example.com:5000", "openstack: {cloudConfig: DIR/cloud}", "",
			map[string]string{
				"cloud":       "[Global]\nuse-clouds = true\ncloud = c\nclouds-file = DIR/clouds.yaml\n" + registries,
				"clouds.yaml": "clouds: {c: {cacert: 'DIR/deep', auth: {auth_url: https://keystone.example/v3, username: a, password: b, project_id: c, user_domain_name: d}}}\n",
			}, "deep", kubelet.Problem},
		"program of an AWS config file": {"*.dkr.ecr.*.amazonaws.com", "ecr: {}", "AWS_CONFIG_FILE: DIR/aws",
			map[string]string{"aws": "[default]\ncredential_process = \"DIR/deep\" --for DIR/other\n"}, "deep", kubelet.Problem},
		"its argument": {"*.dkr.ecr.*.amazonaws.com", "ecr: {}", "AWS_CONFIG_FILE: DIR/aws",
			map[string]string{"aws": "[default]\ncredential_process = DIR/deep --for=DIR/other\n", "other": ""}, "other", kubelet.Problem},
		"by way of two": {"*.dkr.ecr.*.amazonaws.com", "ecr: {}", "AWS_CONFIG_FILE: DIR/aws",
			map[string]string{"aws": "[default]\nca_bundle = DIR/first\n", "first": "see: DIR/deep\nand: DIR/aws\n"}, "deep", kubelet.Problem},
		"a comment": {"*.dkr.ecr.*.amazonaws.com", "ecr: {}", "AWS_CONFIG_FILE: DIR/aws",
			map[string]string{"aws": "# DIR/deep\n  ; DIR/deep\n[default]\n"}, "deep", ""},
		"a sticky directory": {"*.dkr.ecr.*.amazonaws.com", "ecr: {}", "TMPDIR: DIR/sticky", nil, "sticky", ""},
		"a script's":         {"*.dkr.ecr.*.amazonaws.com", "ecr: {}", "X: DIR/script", map[string]string{"script": "#!/bin/sh\necho > DIR/deep\n"}, "deep", ""},
		"login":              {"registry.example.com:5000", "openstack: {cloudConfig: DIR/cloud}", "", map[string]string{"cloud": global + registries}, "cloud", kubelet.Problem},
		"another program's":  {"*.dkr.ecr.*.amazonaws.com", "ecr: {}", "OTHER: DIR/other", map[string]string{"other": "file: DIR/deep\n"}, "deep", kubelet.Warning},
		"secret":             {"*.azurecr.io", azure + "clientSecretFile: DIR/deep}", "", nil, "deep", kubelet.Problem},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			in := func(text string) string { return strings.ReplaceAll(text, "DIR", n.dir) }
			n.program(t, "other", "exit 1")
			n.write(t, "deep", "x")
			for file, text := range tt.files {
				n.write(t, file, in(text))
			}
			if err := os.Mkdir(filepath.Join(n.dir, "sticky"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(n.dir, tt.bad), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(n.dir, "sticky"), os.ModeSticky|0o777); err != nil {
				t.Fatal(err)
			}
			own, other := "", "  env: [{name: NOTHING, value: \"\"}]\n"
			if variable, value, ok := strings.Cut(in(tt.env), ": "); ok {
				env := fmt.Sprintf("  env: [{name: %s, value: %q}]\n", variable, value)
				if variable == "OTHER" {
					other = env
				} else {
					own = env
				}
			}
			options := n.write(t, "options.yaml", configHead+in(tt.options)+"\n")
			config := n.entries(t, entry(name, `"`+tt.images+`"`, "  args: [--config="+options+"]\n"+own), entry("other", "a.example.com", other))
			want := in(fmt.Sprintf("%s: DIR/%s: it can be written to by others than its owner", tt.level, tt.bad))
			if tt.level == "" {
				want = ""
			}
			got := n.check(t, nil, config)
			if wrong := tt.level == kubelet.Problem; (got.code == exitFailed) != wrong || !strings.Contains(got.stdout, want) || want == "" && strings.Contains(got.stdout, "written to") {
				t.Errorf("check: exit %d, want %q:\n%s", got.code, want, got.stdout)
			}
			from := filepath.Join(n.dir, "from")
			data, err := os.ReadFile(config) //nolint:gosec // the test's
			if err == nil {
				err = os.Mkdir(from, 0o700)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(from, rollout.ConfigFile), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			installed := execute(t, "", "install", "--bin-dir", n.bin, "--config-dir", filepath.Join(n.dir, "etc"), "--from", from, "--force")
			if wrong := tt.level == kubelet.Problem; (installed.code == exitFailed) != wrong || wrong && !strings.Contains(installed.stderr, strings.TrimPrefix(want, "problem: ")) {
				t.Errorf("install: exit %d, want %q: %s%s", installed.code, want, installed.stdout, installed.stderr)
			}
		})
	}
}

// What is about to be installed gets its owner and mode then, whatever it has in the folder it comes from; what it names and is not in the
// folder is looked at.
func TestTrustOfWhatIsInstalled(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "deep")
	n := newTarget(t, map[string]string{
		rollout.ConfigFile: "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: isthmus-credential-provider, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['*.azurecr.io'], defaultCacheDuration: 10m, args: [--config=ETC/options.yaml]}\n",
		"options.yaml":     configHead + "acr: {cloudConfig: ETC/azure.json}\n",
		"azure.json":       `{"aadClientCertPath": "` + deep + `", "aadClientSecret": "ETC/options.yaml"}`,
	})
	if err := os.Chmod(filepath.Join(n.from, "options.yaml"), 0o666); err != nil {
		t.Fatal(err)
	}
	for mode, code := range map[os.FileMode]int{0o602: exitFailed, 0o600: exitOK} {
		if err := os.WriteFile(deep, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(deep, mode); err != nil {
			t.Fatal(err)
		}
		got := execute(t, "", n.args()...)
		if got.code != code || (code == exitFailed) != strings.Contains(got.stderr, deep+": it can be written to by others") {
			t.Errorf("%v: exit %d: %s%s", mode, got.code, n.plain(got.stdout), n.plain(got.stderr))
		}
	}
}

// Who is not root cannot say what root's kubelet may trust, and does not see what root alone can read.
func TestCheckWithoutRoot(t *testing.T) {
	n := newNode(t)
	const other = 4711
	config := n.entries(t, entry(name, `"*.dkr.ecr.*.amazonaws.com"`, "  args: [--registries=ecr]\n  env: [{name: AWS_CONFIG_FILE, value: "+n.write(t, "aws", "")+"}]\n"))
	program := filepath.Join(t.TempDir(), name)
	data, err := os.ReadFile(builtBinary(t))
	if err == nil {
		err = os.WriteFile(program, data, 0o755) //nolint:gosec // a program
	}
	for dir := filepath.Dir(config); err == nil && dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755) //nolint:gosec // as in /etc
	}
	for dir := filepath.Dir(program); err == nil && dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755) //nolint:gosec // as in /etc
	}
	if err == nil {
		err = os.Chmod(config, 0o644) //nolint:gosec // as in /etc
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "check", "--kubelet-config="+config, "--bin-dir="+n.bin) //nolint:gosec // the test's
	user, unread := os.Geteuid(), 0
	if user == 0 {
		user, unread = other, 1
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	}
	cmd.Dir = "/"
	out, _ := cmd.CombinedOutput() // whatever it finds
	text := string(out)
	for want, times := range map[string]int{
		fmt.Sprintf("unchecked: what belongs to the user %d, who runs this, is trusted like what is root's: whether the kubelet may trust it was not looked at; run this as root", user): 1,
		"unchecked: " + n.dir + "/aws: it may not be read by who runs this: what it names was not looked at; run this as root":                                                           unread,
	} {
		if strings.Count(text, want) != times {
			t.Errorf("want %d times %q:\n%s", times, want, text)
		}
	}
	if os.Geteuid() == 0 {
		if got := n.check(t, nil, config); strings.Contains(got.stdout, "run this as root") {
			t.Errorf("as root: %s", got.stdout)
		}
	}
}
