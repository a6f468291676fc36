package kubelet

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A kubelet runs each entry one of whose patterns holds for the image, in the order of the configuration.
func TestRuns(t *testing.T) {
	entries := []Entry{
		{Name: "all", MatchImages: []string{"*.example.com"}},
		{Name: "two", MatchImages: []string{"quay.io", "a.example.com/team"}},
		{Name: "none"},
	}
	for image, want := range map[string]string{
		"a.example.com/team/x": "all two", "a.example.com/other": "all", "b.example.com/team": "all", "quay.io/x": "two", "docker.io/x": "", "a.example.com:5000/team": "",
	} {
		var got []string
		for _, e := range Runs(entries, image) {
			got = append(got, e.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", image, got, want)
		}
	}
	if why := WhyNot(entries[1], "a.example.com/other"); len(why) != 2 || !strings.HasPrefix(why[1], "a.example.com/team: the image's path does not begin with /team") {
		t.Errorf("%q", why)
	}
}

// A variable that is there twice is a mistake only where its values differ.
func TestVariablesThatAreThereTwice(t *testing.T) {
	for second, want := range map[string]Level{"1": Warning, "2": Problem} {
		findings := Validate([]Entry{{Name: "p", APIVersion: ProviderGroup + "/v1", CacheDuration: "1m", MatchImages: []string{"quay.io"}, Env: []Variable{{"A", "1"}, {"B", "1"}, {"A", second}}}}, "")
		if len(findings) != 1 || findings[0].Level != want || !strings.HasPrefix(findings[0].Field, "env[2] A") {
			t.Errorf("%s: %v, want a %s", second, findings, want)
		}
	}
	var fields []string
	for _, f := range Validate([]Entry{{Name: "p", APIVersion: ProviderGroup + "/v1", CacheDuration: "1m", MatchImages: []string{"quay.io"}, Env: []Variable{{"", "1"}, {"A=B", "1"}, {"A B", "1"}, {"A_B", ""}}}}, "") {
		fields = append(fields, f.Field)
	}
	if want := []string{"env[0] ", "env[1] A=B", "env[2] A B"}; !slices.Equal(fields, want) {
		t.Errorf("no names of variables are %q, want %q", fields, want)
	}
}

// What a load balancer or a proxy in front of the API server says is no permission, whatever it looks like.
func TestOnlyTheAPIServersAnswerIsAPermission(t *testing.T) {
	status := http.StatusCreated
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"status":{"allowed":true}}`)) // who left needs none
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubelet.conf")
	text := "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: '" + server.URL + "', certificate-authority-data: " + pemOf(server) + "}}]\nusers: [{name: u, user: {token: t}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]bool{http.StatusCreated: true, http.StatusOK: true, http.StatusAccepted: false, http.StatusForbidden: false, http.StatusInternalServerError: false} {
		status = code
		if allowed, err := MayRequestTokens(t.Context(), file, "aud", "", ""); allowed != want || (err == nil) != want {
			t.Errorf("%d: %t, %v", code, allowed, err)
		}
	}
}

// A file is read up to a bound.
func TestFilesAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const config = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: [{name: a}]\n#"
	for size, want := range map[int]string{maxFile: "", maxFile + 1: "it is longer than 4 MiB"} {
		if err := os.WriteFile(file, []byte(config+strings.Repeat("x", size-len(config))), 0o600); err != nil {
			t.Fatal(err)
		}
		entries, findings := Load(file)
		if want == "" && len(entries) != 1 || want != "" && (len(entries) != 0 || len(findings) != 1 || !strings.Contains(findings[0].Cause, want)) {
			t.Errorf("%d bytes: %d entries, %v", size, len(entries), findings)
		}
	}
}

// Why a pattern does not hold is said of its port as it is: none, another one, or one where the image has none.
func TestWhyNotOfPorts(t *testing.T) {
	for _, tt := range [][3]string{
		{"r.example", "r.example:5000/a", "the image has the port 5000 and the pattern none"},
		{"r.example:5000", "r.example/a", "the pattern has the port 5000 and the image none"},
		{"r.example:5000", "r.example:5001/a", "the pattern has the port 5000 and the image 5001"},
	} {
		if got := whyNot(tt[0], tt[1]); !strings.HasPrefix(got, tt[2]) {
			t.Errorf("%s, %s: %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

// A file with another content is replaced by force alone.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "config.yaml")
	if changed, err := WriteFile(there, []byte("one"), false); err != nil || !changed {
		t.Fatalf("%t, %v", changed, err)
	}
	if changed, err := WriteFile(there, []byte("one"), false); err != nil || changed {
		t.Errorf("the same again: %t, %v", changed, err)
	}
	if changed, err := WriteFile(there, []byte("two"), false); !errors.Is(err, ErrDiffers) || changed {
		t.Errorf("another content: %t, %v", changed, err)
	}
	if changed, err := WriteFile(there, []byte("two"), true); err != nil || !changed {
		t.Errorf("another content by force: %t, %v", changed, err)
	}
}

// What a program writes is read up to a bound, whatever it is.
func TestAnswersAreBounded(t *testing.T) {
	r, e := runner(t, "cat >/dev/null; head -c 5000000 /dev/zero; true")
	if _, err := r.Run(t.Context(), e, "r.example/a"); err == nil || !strings.Contains(err.Error(), "it wrote more than 4 MiB") {
		t.Errorf("got %v", err)
	}
}
