package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
)

// The key manager's secret with the registry's login, which the nodes' credential provider reads.
const loginSecret = "registry-login"

// installProvider installs the credential provider's package onto a machine, and configures it as its guide
// has it for OpenStack's key manager.
func (c *Cluster) installProvider(ctx context.Context, m *Machine) error {
	if m == c.Machines[0] {
		c.Cloud.AddSecret(loginSecret, "text/plain", fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, c.Registry.Host, c.Registry.User, c.Registry.Password))
	}
	packages, err := filepath.Glob(filepath.Join(c.env.root, "bin/packages/*_"+runtime.GOARCH+".deb"))
	if err != nil || len(packages) == 0 {
		return fmt.Errorf("no package of the credential provider in bin/packages (%w): run `make packages`", err)
	}
	// The machine's /var/lib is new, as no installer has been there.
	if _, err := m.Run(ctx, "sh", "-ec", `mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates && touch /var/lib/dpkg/status && exec dpkg --install "$0"`, packages[len(packages)-1]); err != nil {
		return err
	}
	dir := filepath.Dir(providersConfig)
	for file, content := range map[string]string{
		providersConfig: fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: isthmus-credential-provider
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [%q]
  defaultCacheDuration: 10m
  args: [--config=%s/options.yaml]
`, c.Registry.Host, dir),
		dir + "/options.yaml": "apiVersion: isthmus-cloud.github.io/v1\nkind: CredentialProviderOptions\nopenstack: {cloudConfig: " + dir + "/cloud.conf}\n",
		dir + "/cloud.conf":   c.Cloud.CloudConf() + fmt.Sprintf("\n[Registry %q]\ntype = barbican\nsecret = %s\n", c.Registry.Host, loginSecret),
	} {
		if err := m.Write(file, content); err != nil {
			return err
		}
	}
	_, err = m.Run(ctx, "/usr/bin/isthmus-credential-provider", "check", "--kubelet-config="+providersConfig, "--bin-dir="+providersBin)
	return err
}
