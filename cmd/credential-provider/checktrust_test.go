package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider/rollout"
)

// What others could change decides what root's kubelet runs, and where passwords go: check and install find it
// in each file that the configuration names, in each directory on the way to it and in what variables name.
func TestTrust(t *testing.T) {
	for mistake, tt := range map[string]struct {
		file string // in the node's directory
		mode os.FileMode
		uid  int
		want string
	}{
		"options of another user":     {"else/options.yaml", 0o600, 4711, "problem: DIR/else/options.yaml: it belongs to the user 4711, who can change what root's kubelet runs or reads; chown -h root DIR/else/options.yaml"},
		"options that all can write":  {"else/options.yaml", 0o666, 0, "problem: DIR/else/options.yaml: it can be written to by others than its owner (mode -rw-rw-rw-), who can change what root's kubelet runs or reads; chmod go-w DIR/else/options.yaml"},
		"their directory":             {"else", 0o775, 0, "problem: DIR/else: directory DIR/else can be written to by others"},
		"a directory above":           {"", 0o777, 0, "problem: DIR: directory DIR can be written to by others"},
		"a sticky directory above":    {"login", os.ModeSticky | 0o777, 0, ""},
		"a sticky one of programs":    {"bin", os.ModeSticky | 0o777, 0, "problem: DIR/bin: directory DIR/bin can be written to"},
		"a file that options name":    {"login/secret", 0o620, 0, "problem: DIR/login/secret: it can be written to"},
		"a directory that they name":  {"login", 0o755, 4711, "problem: DIR/login: directory DIR/login belongs to the user 4711"},
		"a file that variables name":  {"profile", 0o606, 0, "warning: DIR/profile: it can be written to"},
		"the kubelet's configuration": {"credential-provider.yaml", 0o600, 4711, "problem: DIR/credential-provider.yaml: it belongs to the user 4711"},
		"the program":                 {"bin/other", 0o777, 0, "problem: DIR/bin/other: it can be written to"},
		"nothing":                     {"login/secret", 0o600, 0, ""},
		"a secret for all":            {"login/secret", 0o644, 0, `warning: DIR/credential-provider.yaml: provider "isthmus-credential-provider": args: clientSecretFile of acr is DIR/login/secret, which every user of the node can read; chmod o-r DIR/login/secret`},
	} {
		t.Run(mistake, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			for _, dir := range []string{"else", "login"} {
				if err := os.Mkdir(filepath.Join(n.dir, dir), 0o755); err != nil { //nolint:gosec // as in /etc
					t.Fatal(err)
				}
			}
			n.program(t, "other", "exit 1")
			n.write(t, "login/secret", "x")
			n.write(t, "profile", "")
			options := n.write(t, "else/options.yaml", configHead+"acr: {tenantID: 66666666-7777-8888-9999-000000000000, clientID: 11111111-2222-3333-4444-555555555555, clientSecretFile: "+n.dir+"/login/secret}\n")
			config := n.entries(t, entry(name, `"*.azurecr.io"`, "  args: [--config="+options+"]\n"), entry("other", "a.example.com", "  env: [{name: AWS_CA_BUNDLE, value: "+n.dir+"/profile}]\n"))
			file := filepath.Join(n.dir, tt.file)
			if err := os.Chmod(file, tt.mode); err != nil {
				t.Fatal(err)
			}
			if tt.uid != 0 {
				if os.Geteuid() != 0 {
					return // only root can give files away; the package install has a test that needs no root
				}
				if err := os.Chown(file, tt.uid, -1); err != nil {
					t.Fatal(err)
				}
			}
			got := n.check(t, nil, config)
			text := strings.ReplaceAll(got.stdout, n.dir, "DIR")
			wantCode := exitOK
			if strings.HasPrefix(tt.want, "problem") {
				wantCode = exitFailed
			}
			if got.code != wantCode || !strings.Contains(text, tt.want) || strings.Count(text, "problem: ") != wantCode {
				t.Errorf("check: exit %d, want %q once:\n%s", got.code, tt.want, text)
			}
			// install takes the program and the kubelet's configuration from elsewhere, and says the same of the rest.
			from := filepath.Join(t.TempDir(), "from")
			if err := os.Mkdir(from, 0o755); err != nil { //nolint:gosec // anybody's
				t.Fatal(err)
			}
			data, err := os.ReadFile(config) //nolint:gosec // the test's
			if err == nil {
				err = os.WriteFile(filepath.Join(from, rollout.ConfigFile), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.file == rollout.ConfigFile {
				return
			}
			installed := execute(t, "", "install", "--bin-dir", n.bin, "--config-dir", filepath.Join(n.dir, "etc"), "--from", from, "--force")
			want := tt.want[strings.LastIndex(tt.want, ": ")+1:]
			if wantCode == exitFailed && (installed.code != exitFailed || installed.stdout != "" || !strings.Contains(strings.ReplaceAll(installed.stderr, n.dir, "DIR"), want)) || wantCode == exitOK && installed.code != exitOK {
				t.Errorf("install: exit %d, want %q: %s%s", installed.code, want, installed.stdout, installed.stderr)
			}
		})
	}
}
