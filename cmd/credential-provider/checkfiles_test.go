package main

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/credentialprovider/rollout"
)

// The files that the sections acr and artifactregistry name are read when there is an image to pull, but have
// to be there before: check and install say so, and install takes those of the folder.
func TestNamedFiles(t *testing.T) {
	const azure = "acr: {tenantID: 66666666-7777-8888-9999-000000000000, clientID: 11111111-2222-3333-4444-555555555555, "
	for name, tt := range map[string]struct{ image, options, want string }{
		"secret":      {"*.azurecr.io", azure + "clientSecretFile: ETC/login}", "clientSecretFile of acr is FILE"},
		"certificate": {"*.azurecr.io", azure + "clientCertificateFile: ETC/login}", "clientCertificateFile of acr is FILE"},
		"token":       {"*.azurecr.io", azure + "federatedTokenFile: ETC/login}", "federatedTokenFile of acr is FILE"},
		"azure.json":  {"*.azurecr.io", "acr: {cloudConfig: ETC/login}", "cloudConfig of acr is FILE"},
		"google":      {"*.pkg.dev", "artifactregistry: {credentialsFile: ETC/login}", "credentialsFile of artifactregistry is FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTarget(t, map[string]string{
				rollout.ConfigFile: "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: isthmus-credential-provider, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['" + tt.image + "'], defaultCacheDuration: 10m, args: [--config=ETC/options.yaml]}\n",
				"options.yaml":     configHead + tt.options + "\n",
			})
			want := strings.Replace(tt.want, "FILE", "ETC/login, which is not there", 1)
			if got := execute(t, "", n.args()...); got.code != exitFailed || !strings.Contains(n.plain(got.stderr), want) {
				t.Errorf("install: exit %d: %s, want %q", got.code, n.plain(got.stderr), want)
			}
			n.set(t, map[string]string{"login": "x"})
			if got := execute(t, "", n.args()...); got.code != exitOK || !strings.Contains(n.plain(got.stdout), "ETC/login installed\n") {
				t.Errorf("install with it: exit %d: %s%s", got.code, n.plain(got.stdout), n.plain(got.stderr))
			}
			n.remove(t, "login")
			check := execute(t, "", "check", "--kubelet-config", n.configDir+"/"+rollout.ConfigFile, "--bin-dir", n.binDir)
			if check.code != exitFailed || !strings.Contains(n.plain(check.stdout), want) {
				t.Errorf("check: exit %d: %s, want %q", check.code, n.plain(check.stdout), want)
			}
		})
	}
}

// A file that somebody else puts on the node, perhaps later, does not keep the provider from being installed.
func TestNamedFilesOfOthers(t *testing.T) {
	n := newTarget(t, map[string]string{
		rollout.ConfigFile: "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: isthmus-credential-provider, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['*.azurecr.io'], defaultCacheDuration: 10m, args: [--config=ETC/options.yaml]}\n",
		"options.yaml":     configHead + "acr: {cloudConfig: /nowhere/azure.json}\n",
	})
	if got := execute(t, "", n.args()...); got.code != exitOK {
		t.Errorf("install: exit %d: %s%s", got.code, n.plain(got.stdout), n.plain(got.stderr))
	}
	n.set(t, map[string]string{"azure.json": "{}"})
	if got := execute(t, "", n.args()...); got.code != exitFailed || !strings.Contains(n.plain(got.stderr), "/nowhere/azure.json is named, but azure.json goes to ETC/azure.json; write that") {
		t.Errorf("with one in the folder: exit %d: %s%s", got.code, n.plain(got.stdout), n.plain(got.stderr))
	}
}

// Options that are the same on all nodes may have kinds that this one's matchImages do not lead to.
func TestOptionsOfAllClouds(t *testing.T) {
	n := newTarget(t, map[string]string{
		rollout.ConfigFile: "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {name: isthmus-credential-provider, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['*.azurecr.io'], defaultCacheDuration: 10m, args: [--config=ETC/options.yaml]}\n",
		"options.yaml":     configHead + "acr: {}\necr: {}\n",
	})
	if got := execute(t, "", n.args()...); got.code != exitOK {
		t.Errorf("install: exit %d: %s", got.code, n.plain(got.stderr))
	}
	if got := execute(t, "", "check", "--kubelet-config", n.configDir+"/"+rollout.ConfigFile, "--bin-dir", n.binDir); got.code != exitOK || !strings.Contains(got.stdout, "warning: ") {
		t.Errorf("check: exit %d: %s", got.code, n.plain(got.stdout))
	}
}
