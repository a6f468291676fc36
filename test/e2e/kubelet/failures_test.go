//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"

	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

type complete = func(t *testing.T, w *world, p *kubeletv1.CredentialProvider)

// ownAWS is ECR with the node's identity in a simulated AWS of its own.
func ownAWS(o awssim.Options, faults ...awssim.Fault) complete {
	return func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
		sim, _ := startAWS(t, w.plane, o)
		for _, f := range faults {
			sim.AddFault(f)
		}
		useECR(t, w, sim, p, "node")
	}
}

// nodeFailures are trials with the node's identity that have to fail.
func nodeFailures() []trial {
	matching := func(path string) complete {
		return func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			useECR(t, w, w.aws, p, "node")
			p.MatchImages = []string{w.tokens.host + "/" + path}
		}
	}
	hangs := awssim.Fault{Service: "ecr", Hang: true}
	return []trial{
		// What the kubelet does not match it does not say a word about.
		{name: "wrong-path", registry: tokens, provider: matching("wrong-path/application")},
		{name: "glob-in-path", registry: tokens, found: "it never matches", provider: matching("glob-in-path/*")},
		{name: "other-port", registry: tokens, found: "did you mean 127.0.0.1:5002?", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			useECR(t, w, w.aws, p, "node")
			p.MatchImages = []string{"127.0.0.1/other-port"}
		}},
		// The kubelet matches it, but our program has it under another name.
		{name: "not-configured", registry: tokens, found: "did you mean 127.0.0.1?", says: "registry 127.0.0.1:5002 is none of those configured", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			conf, _ := cloudConf(t, w.openstack, "not-configured", "[Registry \"127.0.0.1\"]\ntype = keppel\n")
			p.Args = []string{"--cloud-config=" + conf}
		}},
		{name: "expired-login", registry: passwords, says: "it is wrong, expired or deleted: make a new one", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			conf, credential := cloudConf(t, w.openstack, "expired-login", fmt.Sprintf("[Registry %q]\ntype = barbican\nsecret = barbican\n", w.passwords.host))
			w.openstack.ExpireApplicationCredential(credential.ID, time.Now().Add(-time.Second))
			p.Args = []string{"--cloud-config=" + conf}
		}},
		{name: "expired-token", registry: tokens, says: "the credentials that the cloud gave have expired at", provider: ownAWS(awssim.Options{TokenLifetime: -time.Minute})},
		{name: "timeout", registry: tokens, says: "ECR (GetAuthorizationToken) at api.ecr.eu-central-1.amazonaws.com does not answer in time", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			ownAWS(awssim.Options{}, hangs)(t, w, p)
			p.Args = append(p.Args, "--timeout=2s")
		}},
		{name: "crash", registry: tokens, says: "exit status 2: SIGABRT", provider: ownAWS(awssim.Options{}, hangs), meanwhile: end("crash", syscall.SIGABRT)},
		{name: "killed", registry: tokens, says: "signal: killed", provider: ownAWS(awssim.Options{}, hangs), meanwhile: end("killed", syscall.SIGKILL)},
	}
}

// podFailures are trials with the identity of service accounts that have to fail. The node's
// identity could open all of them.
func podFailures() []trial {
	pods := func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
		useECR(t, w, w.aws, p, "serviceAccount")
	}
	return []trial{
		{name: "stranger", registry: tokens, account: "stranger", says: "AccessDenied", provider: pods},
		{name: "unmapped", registry: passwords, account: "stranger", says: "refuses the access token", provider: useFederation},
		{name: "no-role", registry: tokens, account: "default", says: "service account default/default names no IAM role for pulling", provider: pods},
		{name: "expired-account", registry: tokens, account: "app", says: "ExpiredTokenException", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			// kube-apiserver's tokens are always fresh; AWS sees them as old where clocks differ.
			sim, _ := startAWS(t, w.plane, awssim.Options{})
			sim.AddFault(awssim.Fault{Service: "sts", Status: 400, Code: "ExpiredTokenException", Message: "Token expired"})
			useECR(t, w, sim, p, "serviceAccount")
		}},
		// kube-apiserver refuses the token, and the kubelet does not even start our program.
		{name: "no-audience", registry: tokens, found: "may not have tokens for nobody-may-ask-for-this", account: "app", silent: true, says: "failed to get service account token", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			pods(t, w, p)
			p.TokenAttributes.ServiceAccountTokenAudience = "nobody-may-ask-for-this"
		}},
		// A token for an entry that is on the node's identity.
		{name: "token-for-node", registry: tokens, found: "takes no tokens", account: "app", says: "identity", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			useECR(t, w, w.aws, p, "node")
			useTokens(p, awssim.Audience)
		}},
	}
}

// end returns what ends the provider of that name with a signal, as soon as it runs and catches signals: until then, none
// but the kernel says how it ended.
func end(provider string, signal syscall.Signal) func(t *testing.T) {
	return func(t *testing.T) {
		for range 600 {
			files, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				data, _ := os.ReadFile(file) // it may have ended
				var pid int
				if !strings.Contains(string(data), "/bin/"+provider+"\x00") {
					continue
				}
				if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err != nil {
					t.Fatal(err)
				}
				if !catches(pid, syscall.SIGABRT) {
					continue
				}
				if err := syscall.Kill(pid, signal); err != nil {
					t.Fatal(err)
				}
				return
			}
			<-time.After(50 * time.Millisecond)
		}
		t.Fatal("the kubelet does not run the provider")
	}
}

// catches tells whether a process has a handler for a signal, by SigCgt of proc(5).
func catches(pid int, signal syscall.Signal) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
	_, rest, _ := strings.Cut(string(data), "\nSigCgt:")
	var mask uint64
	_, err := fmt.Sscanf(rest, "%x", &mask)
	return err == nil && mask&(1<<(signal-1)) != 0
}

// checkFinds: the command check finds, as the kubelet of the node, each mistake of a configuration
// about which the kubelet says nothing or little (kind#4185, jfrog-credentials-provider#91), and
// nothing in what works.
func checkFinds(t *testing.T, trials []trial, config, binDir string) {
	out, err := run(t, "isthmus-credential-provider", "check", "--kubelet-config", config, "--bin-dir", binDir, "--kubeconfig", state+"/kubelet/kubeconfig")
	if err == nil {
		t.Error("it finds no problem")
	}
	for _, r := range trials {
		var problems []string
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "problem: ") && strings.Contains(line, fmt.Sprintf("provider %q", r.name)) {
				problems = append(problems, line)
			}
		}
		if (r.found == "") != (len(problems) == 0) || len(problems) > 0 && !strings.Contains(problems[0], r.found) {
			t.Errorf("%s: it finds %q, want %q", r.name, problems, r.found)
		}
	}
}

// checkRefusals: mistakes for which the kubelet does not even start, and what it says.
func checkRefusals(t *testing.T, w *world) {
	good := func() kubeletv1.CredentialProvider {
		return kubeletv1.CredentialProvider{
			Name: "isthmus-credential-provider", APIVersion: "credentialprovider.kubelet.k8s.io/v1",
			MatchImages: []string{"registry.example.com"}, DefaultCacheDuration: &metav1.Duration{Duration: time.Minute}, Args: []string{"--registries=ecr"},
		}
	}
	for name, tt := range map[string]struct {
		change func(p *kubeletv1.CredentialProvider)
		file   func(t *testing.T, binary string)
		want   string
	}{
		"missing binary": {file: remove, want: "plugin binary executable"},
		"no run bit": {file: func(t *testing.T, binary string) {
			remove(t, binary)
			write(t, strings.TrimPrefix(binary, state+"/"), "x")
		}, want: "permission denied"},
		"version":           {change: func(p *kubeletv1.CredentialProvider) { p.APIVersion = "credentialprovider.kubelet.k8s.io/v2" }, want: "credentialprovider.kubelet.k8s.io/v2"},
		"no cacheType":      {change: func(p *kubeletv1.CredentialProvider) { useTokens(p, "a"); p.TokenAttributes.CacheType = "" }, want: "cacheType"},
		"no images":         {change: func(p *kubeletv1.CredentialProvider) { p.MatchImages = nil }, want: "matchImages"},
		"no cache duration": {change: func(p *kubeletv1.CredentialProvider) { p.DefaultCacheDuration = nil }, want: "defaultCacheDuration"},
	} {
		t.Run(name, func(t *testing.T) {
			p := good()
			if tt.change != nil {
				tt.change(&p)
			}
			root := "refused-" + strings.ReplaceAll(name, " ", "-")
			config, binDir := installProviders(t, root, []kubeletv1.CredentialProvider{p})
			if tt.file != nil {
				tt.file(t, filepath.Join(binDir, p.Name))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, program("kubelet"), kubeletArgs(t, w.plane, root, config, binDir)...)
			out, err := cmd.CombinedOutput()
			if err == nil || ctx.Err() != nil {
				t.Fatalf("the kubelet runs: %v", err)
			}
			last := tail(string(out), 600)
			if !strings.Contains(last, tt.want) {
				t.Errorf("the kubelet ends with %s, want %q in it", last, tt.want)
			}
			lines := strings.Split(strings.TrimSpace(last), "\n")
			t.Logf("the kubelet says: %s", lines[len(lines)-1])
		})
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}
