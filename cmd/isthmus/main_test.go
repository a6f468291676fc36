package main

import (
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
		{"status --kubeconfig=" + kubeconfig, "isthmus: "},
		{"nonsense", `isthmus: unknown command "nonsense"`},
		{"docto", "isthmus: doctor"},
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
