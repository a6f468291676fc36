package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorsAreLines: what is wrong with a call is told in lines of their own, of printable and bounded text, also where they are a
// server's words.
func TestErrorsAreLines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"\u001b[2J\u202eno%s"}`, strings.Repeat("x", 100_000))
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		says string
	}{
		{"explain service", "isthmus: there are 0 names where one belongs: isthmus explain service NAME"},
		{"explain node a b", "isthmus: there are 2 names where one belongs: isthmus explain node NAME"},
		{"explain node a --cloud-provider=openstack", "isthmus: "},
		{"explain pv a --cloud-provider=aws --kubeconfig=" + kubeconfig, "isthmus: "},
		{"doctor --cloud-provider=none -o yaml", "isthmus: --output"},
		{"orphans", "isthmus: --cloud-provider is missing"},
		{"status --kubeconfig=" + kubeconfig, "isthmus: → have a role with this right bound to the user"}, // whatever the server says before
		{"nonsense", `isthmus: unknown command "nonsense"`},
		{"nonsense", "isthmus: → isthmus --help"},
		{"docto", "isthmus: doctor"},
		{"docto", "isthmus: → isthmus --help"},
		{"doctor me", "isthmus: → isthmus doctor --help"},
		{"explain nonsense", "isthmus: → isthmus explain --help"},
		{"explain pv a --nonsense", "isthmus: unknown flag: --nonsense\nisthmus: → isthmus explain pv --help\n"},
		{"doctor --timeout=soon", "isthmus: → isthmus doctor --help"},
		{"version -o yaml", "isthmus: --output"},
		{"version 1", "isthmus: → isthmus version --help"},
	} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), "isthmus", strings.Fields(c.args), &stdout, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), c.says) || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d: %.500q, %.500q", c.args, code, stderr.String(), stdout.String())
		}
		if strings.ContainsAny(stderr.String(), "\x1b\u202e") || stderr.Len() > 5000 {
			t.Errorf("%s: %d bytes: %.500q", c.args, stderr.Len(), stderr.String())
		}
		for line := range strings.Lines(stderr.String()) {
			if text, ok := strings.CutPrefix(line, "isthmus: "); !ok || strings.TrimSpace(text) == "" {
				t.Errorf("%s: the line %.200q", c.args, line)
			}
		}
	}
}

// TestVersion: the command says what the flag does, also as a plugin of kubectl, and JSON to programs.
func TestVersion(t *testing.T) {
	said := func(name, args string) string {
		t.Helper()
		var stdout, stderr strings.Builder
		if code := run(t.Context(), name, strings.Fields(args), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d: %s", args, code, stderr.String())
		}
		return stdout.String()
	}
	for name, begin := range map[string]string{"isthmus": "isthmus version ", "kubectl-isthmus": "kubectl isthmus version "} {
		if got := said(name, "version"); got != said(name, "--version") || !strings.HasPrefix(got, begin) {
			t.Errorf("%q", got)
		}
	}
	var v map[string]string
	if err := json.Unmarshal([]byte(said("isthmus", "version -o json")), &v); err != nil || "isthmus version "+v["version"]+"\n" != said("isthmus", "version") || v["platform"] == "" {
		t.Errorf("%v: %v", v, err)
	}
}
