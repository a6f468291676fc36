package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/golden"
)

// node is a machine with a kubelet's configuration and its directory of providers.
type node struct {
	dir, bin, conf string
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{dir: dir, bin: filepath.Join(dir, "bin"), conf: filepath.Join(dir, "cloud.conf")}
	if err := os.Mkdir(n.bin, 0o755); err != nil { //nolint:gosec // as a directory of programs is
		t.Fatal(err)
	}
	if err := os.Symlink(builtBinary(t), filepath.Join(n.bin, name)); err != nil {
		t.Fatal(err)
	}
	n.write(t, "cloud.conf", cloudConf)
	return n
}

func (n *node) write(t *testing.T, file, content string) string {
	t.Helper()
	file = filepath.Join(n.dir, file)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// program adds a provider that answers with a text.
func (n *node) program(t *testing.T, program, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.bin, program), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

// entries is a configuration of these entries, in which CONF is the node's cloud.conf.
func (n *node) entries(t *testing.T, entries ...string) string {
	t.Helper()
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" + strings.Join(entries, "")
	return n.write(t, "credential-provider.yaml", strings.ReplaceAll(text, "CONF", n.conf))
}

func (n *node) check(t *testing.T, env []string, file string, args ...string) outcome {
	t.Helper()
	got := executeEnv(t, env, "", append([]string{"check", "--kubelet-config=" + file, "--bin-dir=" + n.bin}, args...)...)
	for _, secret := range []string{"s3cret", "never-seen"} {
		if strings.Contains(got.stdout+got.stderr, secret) {
			t.Errorf("a secret is shown: %s", got.stdout)
		}
	}
	return got
}

// entry is one with these matchImages and more fields.
func entry(program, matchImages string, more ...string) string {
	return fmt.Sprintf("- name: %s\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: [%s]\n  defaultCacheDuration: 10m\n", program, matchImages) + strings.Join(more, "")
}

const (
	openstackArgs = "  args: [--cloud-config=CONF]\n"
	allImages     = `keppel.example.com, "registry.example.com:5000", missing.example.com`
	ecrPodArgs    = "  args: [--registries=ecr, --identity=serviceAccount]\n"
	awsTokens     = "  tokenAttributes: {serviceAccountTokenAudience: sts.amazonaws.com, cacheType: ServiceAccount, requireServiceAccount: true, optionalServiceAccountAnnotationKeys: [isthmus-cloud.github.io/ecr-role-arn]}\n"
	response      = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"other.example.com":{"username":"u","password":"never-seen"}}}`
)

// The golden files are what people read.
func TestCheckCommand(t *testing.T) {
	for name, tt := range map[string]struct {
		entries []string
		args    []string
		// programs are other providers, by their scripts.
		programs map[string]string
		code     int
	}{
		"good":        {[]string{entry(name, allImages, openstackArgs)}, []string{"--image=keppel.example.com/a/b:v1"}, nil, 0},
		"nomatch":     {[]string{entry(name, allImages, openstackArgs)}, []string{"--image=registry.example.com/a:v1"}, nil, 1},
		"dockerhub":   {[]string{entry(name, allImages, openstackArgs), entry("other", `index.docker.io, "docker.io:443"`)}, []string{"--image=nginx"}, map[string]string{"other": "echo '{}'"}, 1},
		"patterns":    {[]string{entry(name, allImages+`, "*.amazonaws.com", "https://keppel.example.com", "keppel.example.com/*", "*"`, openstackArgs)}, nil, nil, 1},
		"uncovered":   {[]string{entry(name, `keppel.example.com`, openstackArgs)}, nil, nil, 1},
		"unreachable": {[]string{entry(name, `keppel.example.com`, "  args: [--registries=ecr]\n")}, nil, nil, 1},
		"suffix":      {[]string{entry(name, `"*.amazonaws.com"`, "  args: [--registries=ecr]\n")}, nil, nil, 1},
		"args":        {[]string{entry(name, allImages, "  args: [--cloud-conf=CONF]\n")}, nil, nil, 1},
		"noconf":      {[]string{entry(name, allImages, "  args: [--cloud-config=cloud.conf]\n")}, []string{"--image=keppel.example.com/a/b"}, nil, 1},
		"notokens":    {[]string{entry(name, `public.ecr.aws`, ecrPodArgs)}, nil, nil, 1},
		"tokens":      {[]string{entry(name, `public.ecr.aws`, "  args: [--registries=ecr]\n", awsTokens)}, nil, nil, 1},
		"annotations": {[]string{entry(name, `public.ecr.aws`, ecrPodArgs, strings.NewReplacer("isthmus-cloud.github.io/ecr-role-arn", "role", "sts.amazonaws.com", "sts.example", "requireServiceAccount: true", "requireServiceAccount: false").Replace(awsTokens))}, []string{"--image=public.ecr.aws/a/b"}, nil, 1},
		"env":         {[]string{entry(name, `public.ecr.aws`, ecrPodArgs, awsTokens, "  env: [{name: AWS_ACCESS_KEY_ID, value: AKIA}, {name: AWS_PROFILE, value: x}, {name: AWS_REGION, value: a}, {name: AWS_REGION, value: b}, {name: 'A=B', value: c}]\n")}, nil, nil, 1},
		"others": {
			[]string{entry(name, allImages, openstackArgs), entry("other", `keppel.example.com`), entry("wrongkey", `keppel.example.com`), entry("crash", `keppel.example.com`), entry("html", `keppel.example.com`), entry("empty", "keppel.example.com")},
			[]string{"--image=keppel.example.com/a/b"},
			map[string]string{
				"other":    "echo '" + strings.Replace(response, "other.example.com", "*.example.com", 1) + "'; echo careful >&2",
				"wrongkey": "echo '" + response + "'",
				"crash":    "echo 'no luck' >&2; exit 3",
				"html":     "echo '<html>'",
				"empty":    `echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"5m","auth":{}}'`,
			}, 1,
		},
		"answers": {
			[]string{entry("beta", `a.example.com`), entry("unknown", `a.example.com`), entry("nokey", `a.example.com`), entry("twice", `a.example.com`)},
			[]string{"--image=a.example.com/b"},
			map[string]string{
				"beta":    "echo '" + strings.Replace(response, "k8s.io/v1", "k8s.io/v1beta1", 1) + "'",
				"unknown": "echo '" + strings.Replace(response, `"auth"`, `"expires":"x","auth"`, 1) + "'",
				"nokey":   "echo '" + strings.Replace(response, `Registry`, `registry`, 1) + "'",
				"twice":   "echo '" + strings.Replace(response, `"kind"`, `"auth":{},"kind"`, 1) + "'",
			}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			for program, script := range tt.programs {
				n.program(t, program, script)
			}
			got := n.check(t, nil, n.entries(t, tt.entries...), tt.args...)
			if got.code != tt.code || got.stderr != "" {
				t.Errorf("exit %d, want %d: %s", got.code, tt.code, got.stderr)
			}
			text := regexp.MustCompile(`after \d+ ms`).ReplaceAllString(strings.ReplaceAll(got.stdout, n.dir, "DIR"), "after … ms")
			golden.Compare(t, filepath.Join("testdata", "check", name+".golden"), text)
		})
	}
}

// kubernetes-sigs/kind#4185: the plugin is silently never run. A wildcard in a path looks right, the
// kubelet takes it, and it never matches.
func TestComplaintKind4185PathWildcardNeverMatches(t *testing.T) {
	n := newNode(t)
	file := n.entries(t, entry(name, `"keppel.example.com/*", "registry.example.com:5000", missing.example.com`, openstackArgs))
	got := n.check(t, nil, file, "--image=keppel.example.com/team/app:v1")
	for _, want := range []string{
		`problem: ` + file + `: provider "isthmus-credential-provider": matchImages[0] "keppel.example.com/*": its path has a wildcard, but a path is compared literally, as the beginning of the image's: it never matches; write keppel.example.com,`,
		`no pattern holds for keppel.example.com/team/app: the kubelet runs no provider for it and pulls without credentials; add keppel.example.com`,
	} {
		if got.code != 1 || !strings.Contains(got.stdout, want) {
			t.Errorf("exit %d, it does not say %q:\n%s", got.code, want, got.stdout)
		}
	}
	file = n.entries(t, entry(name, `keppel.example.com, "registry.example.com:5000", missing.example.com`, openstackArgs))
	if got := n.check(t, nil, file, "--image=keppel.example.com/team/app:v1"); got.code != 0 || !strings.Contains(got.stdout, `the kubelet pulls as user "applicationcredential-0123abcd", by the key keppel.example.com`) {
		t.Errorf("corrected: exit %d:\n%s", got.code, got.stdout)
	}
}

// jfrog-credentials-provider#91: nothing says that the nodes lack the RBAC for the audience, or that
// the answer's cacheKeyType is not one.
func TestComplaintJfrog91AudienceAndCacheKeyType(t *testing.T) {
	n := newNode(t)
	var mu sync.Mutex // of what the API server has
	allowed := false
	var asked []string
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Kind string
			Spec struct{ ResourceAttributes map[string]string }
		}
		if r.Header.Get("Authorization") != "Bearer s3cret" || r.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" || json.NewDecoder(r.Body).Decode(&review) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, review.Kind+" "+review.Spec.ResourceAttributes["verb"]+" "+review.Spec.ResourceAttributes["resource"])
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"status":{"allowed":%t}}`, allowed)
	}))
	defer api.Close()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}))
	kubeconfig := n.write(t, "kubelet.conf", "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: "+api.URL+", certificate-authority-data: "+ca+"}}]\nusers: [{name: u, user: {tokenFile: token}}]\n")
	n.write(t, "token", "s3cret\n")
	file := n.entries(t, entry(name, `public.ecr.aws`, ecrPodArgs, awsTokens))

	got := n.check(t, nil, file, "--kubeconfig="+kubeconfig)
	want := `tokenAttributes.serviceAccountTokenAudience: the kubelet may not have tokens for sts.amazonaws.com (RBAC: verb request-serviceaccounts-token-audience): it does not run the provider; isthmus-credential-provider config --rbac prints`
	if got.code != 1 || !strings.Contains(got.stdout, want) {
		t.Errorf("exit %d, it does not say %q:\n%s", got.code, want, got.stdout)
	}
	mu.Lock()
	allowed = true
	mu.Unlock()
	if got := n.check(t, nil, file, "--kubeconfig="+kubeconfig); got.code != 0 || !strings.Contains(got.stdout, "the kubelet may have tokens for sts.amazonaws.com") {
		t.Errorf("allowed: exit %d:\n%s", got.code, got.stdout)
	}
	mu.Lock()
	if len(asked) != 2 || asked[0] != "SelfSubjectAccessReview request-serviceaccounts-token-audience sts.amazonaws.com" {
		t.Errorf("asked: %v", asked)
	}
	mu.Unlock()
	if got := n.check(t, nil, file); !strings.Contains(got.stdout, "was not asked; give --kubeconfig, or ask: echo '{") {
		t.Errorf("without a kubeconfig: %s", got.stdout)
	}
	n.write(t, "token", "wrong")
	if got := n.check(t, nil, file, "--kubeconfig="+kubeconfig); got.code != 0 || !strings.Contains(got.stdout, "could not be asked: the API server answers 401 Unauthorized") {
		t.Errorf("refused: exit %d: %s", got.code, got.stdout)
	}

	n.program(t, "jfrog", "echo '"+strings.Replace(response, "Registry", "image", 1)+"'")
	got = n.check(t, nil, n.entries(t, entry("jfrog", "a.example.com")), "--image=a.example.com/b")
	if want := `its answer has the cacheKeyType "image", and the kubelet takes only Image, Registry and Global`; got.code != 1 || !strings.Contains(got.stdout, want) {
		t.Errorf("exit %d, it does not say %q:\n%s", got.code, want, got.stdout)
	}
}

// A dry run with a service account's token gets what a pod would.
func TestCheckCommandAsServiceAccount(t *testing.T) {
	n, w := newNode(t), startAWS(t)
	env := append(w.Env(), "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
	token := n.write(t, "token", w.token(t, "app", time.Hour))
	tokens := strings.Replace(awsTokens, "optional", "required", 1)
	file := n.entries(t, entry(name, `"`+ownRegistry+`"`, ecrPodArgs, tokens))
	args := []string{"--image=" + ownRegistry + "/app:v1", "--service-account-token-file=" + token}
	got := n.check(t, env, file, append(args, "--annotation="+ownKey+"="+w.pod)...)
	if got.code != 0 || !strings.Contains(got.stdout, `user "AWS" for `+ownRegistry+`, with a password`) || !strings.Contains(got.stdout, "kept for 53m") || !strings.Contains(got.stdout, "(registry)") {
		t.Errorf("exit %d:\n%s", got.code, got.stdout)
	}
	got = n.check(t, env, file, args...)
	if got.code != 0 || !strings.Contains(got.stdout, "warning: "+file+`: provider "`+name+`": the kubelet does not run it for this pod; the service account has no annotation `+ownKey+", which requiredServiceAccountAnnotationKeys lists: the kubelet does not run it and says so only with -v=5") {
		t.Errorf("without the annotation: exit %d:\n%s", got.code, got.stdout)
	}
}

// A directory is read as the kubelet reads it: by the names of its files, not recursively.
func TestCheckCommandDirectory(t *testing.T) {
	n := newNode(t)
	dir := filepath.Join(n.dir, "conf.d")
	if err := os.MkdirAll(filepath.Join(dir, "more.yaml"), 0o755); err != nil { //nolint:gosec // as a directory of configurations is
		t.Fatal(err)
	}
	if got := n.check(t, nil, dir); got.code != 1 || !strings.Contains(got.stdout, dir+": it has no files *.json, *.yaml or *.yml: the kubelet does not start") {
		t.Errorf("empty: exit %d:\n%s", got.code, got.stdout)
	}
	head := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	n.write(t, "conf.d/b.yaml", head+strings.ReplaceAll(entry(name, allImages, openstackArgs), "CONF", n.conf))
	n.write(t, "conf.d/a.yml", head+strings.ReplaceAll(entry(name, allImages, openstackArgs), "CONF", n.conf))
	n.write(t, "conf.d/c.txt", "nonsense")
	got := n.check(t, nil, dir)
	if want := filepath.Join(dir, "b.yaml") + `: provider "isthmus-credential-provider": name: another entry has the same name, in ` + filepath.Join(dir, "a.yml"); got.code != 1 || !strings.Contains(got.stdout, want) ||
		!strings.Contains(got.stdout, "warning: "+filepath.Join(dir, "more.yaml")+": it is a directory, which the kubelet does not read") || strings.Contains(got.stdout, "c.txt") {
		t.Errorf("exit %d, it does not say %q:\n%s", got.code, want, got.stdout)
	}
}

func TestCheckCommandUsage(t *testing.T) {
	n := newNode(t)
	file := n.entries(t, entry(name, allImages, openstackArgs))
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"flag":     {[]string{"--images=x"}, "unknown flag --images; did you mean --image?; see isthmus-credential-provider check --help"},
		"image":    {[]string{"--image=https://a/b"}, `--image: image "https://a/b": an image reference has no scheme`},
		"no image": {[]string{"--annotation=a=b"}, "--service-account-token-file and --annotation are for --image"},
		"no token": {[]string{"--image=a.example/b", "--service-account-token-file=/nowhere/token"}, "--service-account-token-file: open /nowhere/token"},
	} {
		t.Run(name, func(t *testing.T) {
			got := n.check(t, nil, file, tt.args...)
			if got.code != 2 || !strings.Contains(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
				t.Errorf("exit %d, %q, %q", got.code, got.stdout, got.stderr)
			}
		})
	}
	if got := n.check(t, nil, filepath.Join(n.dir, "nowhere.yaml")); got.code != 1 || !strings.Contains(got.stdout, "nowhere.yaml: it cannot be read: no such file or directory; name the one of the kubelet's flag") {
		t.Errorf("exit %d, %s", got.code, got.stdout)
	}
}
