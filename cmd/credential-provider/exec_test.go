package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

const versionSet = "v0.0.0-test"

// build builds the binary as a release does, once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "isthmus-credential-provider-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/isthmus-cloud/isthmus/pkg/version.Version="+versionSet, "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	syscall.Umask(0o022) // temporary directories are for their owner alone to write to, as those of nodes are
	code := m.Run()
	if binary, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

func builtBinary(t *testing.T) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// outcome is what a run of the binary shows.
type outcome struct {
	code           int
	stdout, stderr string
}

// execute runs the binary as the kubelet does: the request on stdin, which is then closed, and
// an environment that holds the kubelet's and not the tests' OS_ variables.
func execute(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return executeEnv(t, nil, stdin, args...)
}

// executeEnv is execute with more variables in the environment.
func executeEnv(t *testing.T, env []string, stdin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, builtBinary(t), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}, env...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

// storeSecret keeps a payload in the simulator's Barbican.
func storeSecret(t *testing.T, sim *ossim.Sim, secret, payload string) {
	t.Helper()
	session, err := auth.New(auth.Config{
		AuthURL: sim.AuthURL(), Username: ossim.UserName, Password: cloudauth.NewSecret(ossim.UserPassword),
		TenantName: ossim.ProjectName, DomainName: "Default",
	}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := session.Service(t.Context(), "key-manager")
	if err != nil {
		t.Fatal(err)
	}
	if err := secrets.Create(t.Context(), client, secrets.CreateOpts{Name: secret, Payload: payload, PayloadContentType: "text/plain"}).Err; err != nil {
		t.Fatal(err)
	}
}

func writeConf(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func login(sim *ossim.Sim) string {
	return fmt.Sprintf("[Global]\nauth-url = %s\nregion = RegionOne\nusername = k8s\npassword = secret\ntenant-name = k8s\nuser-domain-name = Default\ntenant-domain-name = Default\n", sim.AuthURL())
}

const registries = `[Registry "keppel.example.com"]
type = keppel
[Registry "registry.example.com:5000"]
type = barbican
secret = registry
cache-duration = 10m
[Registry "missing.example.com"]
type = barbican
secret = missing
[LoadBalancer]
subnet-id = x
`

func request(version, image string) string {
	return fmt.Sprintf(`{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/%s","image":%q}`, version, image)
}

// podRequest is a request with a service account's token and annotations.
func podRequest(t *testing.T, image, token string, annotations map[string]string) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
		"image": image, "serviceAccountToken": token, "serviceAccountAnnotations": annotations,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The golden files are transcripts: request, exit code, stdout, stderr.
func TestExec(t *testing.T) {
	sim := ossim.ForTest(t)
	storeSecret(t, sim, "registry", `{"auths":{"https://registry.example.com:5000":{"auth":"cHVsbGVyOmZyb20tYmFyYmljYW4="},"registry.example.com:5000/team":{"username":"team","password":"of-the-team"},"other.example.com":{"username":"o","password":"never-seen"}}}`)
	storeSecret(t, sim, "plain", `{"auths":{"registry.example.com:5000":{"auth":"cHVsbGVyOmZyb20tYmFyYmljYW4="}}}`)
	good := login(sim) + registries
	for name, tt := range map[string]struct{ conf, stdin string }{
		"keppel-v1":            {good, request("v1", "keppel.example.com/account/repo")},
		"keppel-v1beta1":       {good, request("v1beta1", "keppel.example.com/account/repo")},
		"keppel-v1alpha1":      {good, request("v1alpha1", "keppel.example.com/account/repo")},
		"keppel-appcredential": {"[Global]\nauth-url = " + sim.AuthURL() + "\napplication-credential-id = 0123abcd\napplication-credential-secret = of-the-application\n" + registries, request("v1", "keppel.example.com/account/repo")},
		"barbican-host":        {good, request("v1", "registry.example.com:5000/app")},
		"barbican-path":        {good, request("v1", "registry.example.com:5000/team/app")},
		"barbican-registry":    {strings.Replace(good, "secret = registry", "secret = plain", 1), request("v1", "registry.example.com:5000/app")},
		"barbican-missing":     {good, request("v1", "missing.example.com/app")},
		"not-configured":       {good, request("v1", "other.example.com/app")},
		"wrong-password":       {strings.Replace(good, "password = secret", "password = s3cret", 1), request("v1", "registry.example.com:5000/app")},
		"wrong-region":         {strings.Replace(good, "RegionOne", "RegionTwo", 1), request("v1", "registry.example.com:5000/app")},
		"unreachable":          {strings.Replace(good, sim.AuthURL(), "http://127.0.0.1:1/v3", 1), request("v1", "registry.example.com:5000/app")},
		"broken-conf":          {"[Global]\nuse-clouds = perhaps\npassword = \"s3cret\n", request("v1", "keppel.example.com/a")},
		"mistyped-key":         {strings.Replace(good, "region =", "regoin =", 1), request("v1", "keppel.example.com/a")},
		"malformed":            {good, `{"kind":"CredentialProviderRequest",`},
		"oversized":            {good, request("v1", strings.Repeat("a", 2<<20))},
		"empty":                {good, ""},
		"other-kind":           {good, `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`},
		"other-version":        {good, request("v2", "keppel.example.com/a")},
		"token":                {good, strings.Replace(request("v1", "keppel.example.com/a"), "{", `{"serviceAccountToken":"s3cret",`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			conf := writeConf(t, tt.conf)
			got := execute(t, tt.stdin, "--cloud-config", conf)
			checkOutcome(t, got)
			shown := tt.stdin
			if len(shown) > 1000 {
				shown = fmt.Sprintf("(%d bytes)", len(shown))
			}
			transcript := fmt.Sprintf("request: %s\nexit: %d\nstdout: %s\nstderr: %s\n", shown, got.code, strings.TrimSpace(got.stdout), strings.TrimSpace(got.stderr))
			transcript = strings.NewReplacer(conf, "cloud.conf", sim.AuthURL(), "AUTH-URL").Replace(transcript)
			golden.Compare(t, filepath.Join("testdata", name+".golden"), transcript)
		})
	}
}

// checkOutcome checks what holds for every run.
func checkOutcome(t *testing.T, got outcome) {
	t.Helper()
	if strings.Contains(got.stderr, "s3cret") || strings.Contains(got.stdout+got.stderr, "never-seen") {
		t.Errorf("a secret is shown: %s", got.stderr)
	}
	if got.code == 0 {
		var anything map[string]any
		if err := json.Unmarshal([]byte(got.stdout), &anything); err != nil {
			t.Errorf("stdout is no JSON: %v", err)
		}
		return
	}
	if got.stdout != "" {
		t.Errorf("it failed, but wrote to stdout: %s", got.stdout)
	}
	// Without an end of the line the kubelet's log has the error in the record's own line.
	if lines := strings.Count(got.stderr, "\n"); lines != 0 || got.stderr == "" {
		t.Errorf("%d lines' ends on stderr, want one line without: %q", lines, got.stderr)
	}
}

func TestUsage(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"version":        {[]string{"--version"}, 0, "isthmus-credential-provider " + versionSet + "\n"},
		"help":           {[]string{"--help"}, 0, helpText()},
		"unknown flag":   {[]string{"--cloud-conf=x"}, 2, "unknown flag --cloud-conf; did you mean --cloud-config?; see --help"},
		"nothing":        {nil, 2, "nothing says which registries to serve; give --registries=ecr or --config FILE (see --help)"},
		"unknown kind":   {[]string{"--registries=ecrr"}, 2, `--registries: "ecrr" is not known; known are `},
		"kind twice":     {[]string{"--registries=openstack,openstack"}, 2, "--registries: openstack is there twice"},
		"who":            {[]string{"--registries=openstack", "--identity=pod"}, 2, `--identity: identity "pod" is not known; it has to be node or serviceAccount`},
		"two ways":       {[]string{"--config=x", "--identity=node"}, 2, "--config holds everything; remove --registries, --identity and --cloud-config"},
		"no such config": {[]string{"--config=/nowhere/x"}, 1, "--config cannot be read: open /nowhere/x: no such file or directory"},
		"command":        {[]string{"get"}, 2, `unknown command "get"; see --help`},
		"argument":       {[]string{"--registries=openstack", "get"}, 2, `unexpected argument "get"; see --help`},
		"bad duration":   {[]string{"--timeout=soon"}, 2, `invalid value "soon" for flag -timeout`},
		"long timeout":   {[]string{"--timeout=2m"}, 2, "--timeout is 2m0s; it has to be more than 0 and at most 55s"},
		"missing config": {[]string{"--cloud-config=/nowhere/cloud.conf"}, 1, "open /nowhere/cloud.conf: no such file or directory; name it with --cloud-config"},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, request("v1", "a.example/b"), tt.args...)
			if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.want) {
				t.Errorf("exit %d, %q; want %d, %q", got.code, got.stdout+got.stderr, tt.code, tt.want)
			}
			if tt.code != 0 && (strings.Contains(got.stderr, "\n") || got.stdout != "") {
				t.Errorf("want one line on stderr, got %q and %q", got.stderr, got.stdout)
			}
		})
	}
}

// A newer kubelet's requests are answered, and what is not known of them is told from --v=4 on.
func TestUnknownFields(t *testing.T) {
	options := writeOptions(t, "anonymousRegistries: [a.example]\necr: {}\n")
	in := strings.Replace(request("v1", "a.example/b"), "{", `{"podUID":"s3cret",`, 1)
	for level, want := range map[string]string{"3": "", "4": name + `: warning: fields of the request that are not known here are ignored: ["podUID"]` + "\n"} {
		got := execute(t, in, "--config="+options, "--v="+level)
		if got.code != 0 || got.stderr != want || !strings.Contains(got.stdout, "CredentialProviderResponse") {
			t.Errorf("--v=%s: exit %d, %q, %q, want %q", level, got.code, got.stdout, got.stderr, want)
		}
	}
}

// The program ends by itself before the kubelet kills it, and at once on a signal.
func TestEndsInTime(t *testing.T) {
	sim := ossim.ForTest(t)
	sim.AddFault(ossim.Fault{Service: "identity", Hang: true})
	conf := writeConf(t, login(sim)+registries)
	start := time.Now()
	got := execute(t, request("v1", "registry.example.com:5000/app"), "--cloud-config", conf, "--timeout", "500ms")
	took := time.Since(start)
	if got.code != 1 || strings.Contains(got.stderr, "\n") || !strings.Contains(got.stderr, "check auth-url") {
		t.Errorf("a hanging Keystone: exit %d, %q", got.code, got.stderr)
	}
	if took > 45*time.Second { // as long as without the flag
		t.Errorf("it took %s with --timeout 500ms", took)
	}

	for name, prepare := range map[string]func(*exec.Cmd){
		"stdin stays open": func(*exec.Cmd) {},
		"Keystone hangs":   func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--cloud-config", conf) },
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), builtBinary(t), "--timeout", "50s", "--registries", "openstack")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			prepare(cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if name == "stdin stays open" {
				// More than a pipe holds: once it is written, the program reads.
				if _, err := stdin.Write(bytes.Repeat([]byte(" "), 100<<10)); err != nil {
					t.Fatal(err)
				}
			} else {
				asked := sim.Count("identity", "")
				if _, err := stdin.Write([]byte(request("v1", "registry.example.com:5000/app"))); err != nil {
					t.Fatal(err)
				}
				if err := stdin.Close(); err != nil {
					t.Fatal(err)
				}
				eventually.True(t, "Keystone is asked", func() bool { return sim.Count("identity", "") > asked })
			}
			start := time.Now()
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it exits with 0 after a signal")
			}
			if d := time.Since(start); d > 40*time.Second { // its timeout is 50 s
				t.Errorf("it ends %s after the signal", d)
			}
			if out := stderr.String(); !strings.HasPrefix(out, "isthmus-credential-provider: stopped by a signal") || strings.Contains(out, "\n") {
				t.Errorf("stderr: %q, want one line about the signal", out)
			}
		})
	}
}

// What blocks behind the request is not taken for a request that does not come.
func TestBlockedConfiguration(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "options.yaml") // nobody writes to it
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	got := execute(t, request("v1", "public.ecr.aws/a/b"), "--config="+fifo, "--timeout=300ms")
	checkOutcome(t, got)
	if got.code != 1 || !strings.Contains(got.stderr, "no answer after 300ms (--timeout); something on this machine blocks") {
		t.Errorf("exit %d, %q", got.code, got.stderr)
	}
}

// maxSize is the stripped size that the binary may have: it lies on every node.
const maxSize = 15_000_000

func TestSizeAndDependencies(t *testing.T) {
	info, err := os.Stat(builtBinary(t))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSize {
		t.Errorf("the stripped binary has %.1f MB, want at most %d MB", float64(info.Size())/1e6, maxSize/1_000_000)
	}
	t.Logf("stripped size: %.2f MB", float64(info.Size())/1e6)
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		for _, no := range []string{"k8s.io/client-go", "k8s.io/apimachinery", "k8s.io/api", "sigs.k8s.io/controller-runtime", "github.com/isthmus-cloud/isthmus/pkg/providers", "github.com/isthmus-cloud/isthmus/pkg/cloud", "github.com/isthmus-cloud/isthmus/pkg/ccm"} {
			if dep == no || strings.HasPrefix(dep, no+"/") {
				t.Errorf("the binary links %s", dep)
			}
		}
	}
}
