//go:build e2e

package kubelet

import (
	"fmt"
	"strings"
	"testing"

	kubeletv1 "k8s.io/kubelet/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/credentialprovider/acr"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	azuresim "github.com/isthmus-cloud/isthmus/test/cloudsim/azure"
	gcpsim "github.com/isthmus-cloud/isthmus/test/cloudsim/gcp"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// The cloud's registries whose logins our registry takes in their place, and for whom the tokens
// of service accounts are.
const (
	acrRegistry      = "contoso.azurecr.io"
	azureAudience    = "api://AzureADTokenExchange"
	azureTenant      = "aaaaaaaa-0000-4000-8000-000000000001"
	keystoneAudience = "https://keystone.test"
	googleRegistry   = "europe-docker.pkg.dev"
	poolProvider     = "projects/123456/locations/global/workloadIdentityPools/nodes/providers/cluster"
)

// nodeTrials are those with the node's identity.
func nodeTrials() []trial {
	return []trial{
		{name: "barbican", registry: passwords, as: puller, provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			w.openstack.AddSecret("barbican", "text/plain", fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, w.passwords.host, puller, pullerPassword))
			conf, _ := cloudConf(t, w.openstack, "barbican", fmt.Sprintf("[Registry %q]\ntype = barbican\nsecret = barbican\n", w.passwords.host))
			p.Args = []string{"--cloud-config=" + conf}
		}},
		{name: "keppel", registry: tokens, as: "application-credential", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			w.logins.allow("keppel", keystoneLogins(t, w.openstack))
			conf, _ := cloudConf(t, w.openstack, "keppel", fmt.Sprintf("[Registry %q]\ntype = keppel\n", w.tokens.host))
			p.Args = []string{"--cloud-config=" + conf}
		}},
		{name: "ecr-node", registry: tokens, as: "AWS", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) { useECR(t, w, w.aws, p, "node") }},
		{name: "acr-node", registry: tokens, as: "the machine", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) { useACR(t, w, p, "node") }},
		{name: "google-node", registry: tokens, as: "serviceAccount:node@project.iam.gserviceaccount.com", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) { useGoogle(t, w, p, "node") }},
	}
}

// podTrials are those with the identity of service accounts. The node has an identity in each
// cloud, too; in Azure and Google Cloud it may not pull.
func podTrials() []trial {
	return []trial{
		{name: "ecr-pod", registry: tokens, account: "app", as: "AWS", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
			useECR(t, w, w.aws, p, "serviceAccount")
		}},
		{name: "barbican-pod", registry: passwords, account: "app", as: puller, provider: useFederation},
		{name: "acr-pod", registry: tokens, account: "azure", as: "the pod", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) { useACR(t, w, p, "serviceAccount") }},
		{name: "google-pod", registry: tokens, account: "app", provider: func(t *testing.T, w *world, p *kubeletv1.CredentialProvider) { useGoogle(t, w, p, "serviceAccount") },
			as: "principal://iam.googleapis.com/projects/123456/locations/global/workloadIdentityPools/nodes/subject/system:serviceaccount:" + namespace + ":app"},
	}
}

// useFederation completes a provider: Keystone takes the tokens of service account app, as which
// Barbican is then read. There is no login in cloud.conf.
func useFederation(t *testing.T, w *world, p *kubeletv1.CredentialProvider) {
	t.Helper()
	issuer, err := cloudsim.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	trust(t, w.plane, issuer)
	w.openstack.AddFederation(ossim.Federation{
		IdentityProvider: p.Name, Protocol: "openid", Issuer: issuer, Audience: keystoneAudience,
		Mapping: map[string]map[string][]string{"system:serviceaccount:" + namespace + ":app": {ossim.ProjectName: {"creator"}}},
	})
	w.openstack.AddSecret(p.Name, "text/plain", fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, w.passwords.host, puller, pullerPassword))
	conf := write(t, p.Name+"/cloud.conf", fmt.Sprintf("[Global]\nauth-url = %s\nregion = RegionOne\ntenant-name = %s\ntenant-domain-name = Default\nidentity-provider = %s\n[Registry %q]\ntype = barbican\nsecret = %s\n",
		w.openstack.AuthURL(), ossim.ProjectName, p.Name, w.passwords.host, p.Name))
	configure(t, p, "--cloud-config="+conf, "--node-config-path="+conf, "--identity=serviceAccount", "--audience="+keystoneAudience)
}

// useMirror completes a provider: a kind with these keys in its section, and our registry as the
// mirror of one of the cloud's.
func useMirror(t *testing.T, w *world, p *kubeletv1.CredentialProvider, kind, registry string, env []string, keys ...string) {
	t.Helper()
	options := write(t, p.Name+"/options.yaml", fmt.Sprintf("apiVersion: isthmus-cloud.github.io/v1\nkind: CredentialProviderOptions\n%s:\n  mirrors: [{upstream: %q, registry: %s}]\n  %s\n",
		kind, w.tokens.host, registry, strings.Join(keys, "\n  ")))
	args := []string{"--config=" + options, "--node-config-path=" + options}
	for _, e := range env {
		args = append(args, "--env="+e)
	}
	configure(t, p, args...)
}

// configure has the command config write the provider's entry.
func configure(t *testing.T, p *kubeletv1.CredentialProvider, args ...string) {
	t.Helper()
	out, err := run(t, "isthmus-credential-provider", append([]string{"config", "--name=" + p.Name, "--match-images=" + strings.Join(p.MatchImages, ","), "--cache-duration=1m"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var config kubeletv1.CredentialProviderConfig
	if err := yaml.UnmarshalStrict([]byte(out), &config); err != nil || len(config.Providers) != 1 {
		t.Fatalf("config writes what the kubelet does not read: %v:\n%s", err, out)
	}
	*p = config.Providers[0]
}

// useECR completes a provider: the registry is a mirror of the simulated ECR.
func useECR(t *testing.T, w *world, sim *awssim.Sim, p *kubeletv1.CredentialProvider, identity string) {
	t.Helper()
	w.logins.allow(p.Name, ecrLogins(sim))
	useMirror(t, w, p, "ecr", ecrRegistry, append(sim.Env(), "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"), "identity: "+identity)
}

// useACR completes a provider: the registry is a mirror of one in a simulated Azure.
func useACR(t *testing.T, w *world, p *kubeletv1.CredentialProvider, identity string) {
	t.Helper()
	sim, err := azuresim.Start(azuresim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	trust(t, w.plane, sim.Issuer)
	who, id := "the machine", sim.SetSystemIdentity(azuresim.Application{Tenant: azureTenant})
	if identity != "node" {
		who, id = "the pod", sim.AddApplication(azuresim.Application{Tenant: azureTenant, Subjects: []string{"system:serviceaccount:" + namespace + ":azure"}})
		addAccount(t, w.plane.Client, "azure", map[string]string{acr.ClientAnnotation: id.ClientID, acr.TenantAnnotation: azureTenant})
	}
	sim.AddRegistry(azuresim.Registry{Host: acrRegistry, Pull: []string{id.ClientID}})
	w.logins.allow(p.Name, func(user, password string) (string, bool) {
		return who, sim.Login(user, password, acrRegistry) == nil && sim.ClientOf(password) == id.ClientID
	})
	useMirror(t, w, p, "acr", acrRegistry, sim.Env(), "identity: "+identity)
}

// useGoogle completes a provider: the registry is a mirror of Artifact Registry in a simulated
// Google Cloud.
func useGoogle(t *testing.T, w *world, p *kubeletv1.CredentialProvider, identity string) {
	t.Helper()
	sim, err := gcpsim.Start(gcpsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	trust(t, w.plane, sim.Issuer)
	const node = "node@project.iam.gserviceaccount.com"
	sim.AddAccount(node)
	sim.SetInstance(node, gcpsim.ScopeStorage)
	pool := gcpsim.Provider{Name: poolProvider}
	sim.AddProvider(pool)
	keys := []string{"identity: " + identity}
	if identity == "node" {
		sim.AllowPull("project", gcpsim.Account(node))
	} else {
		sim.AllowPull("project", pool.Principal("system:serviceaccount:"+namespace+":app"))
		keys = append(keys, "workloadIdentityProvider: "+poolProvider)
	}
	w.logins.allow(p.Name, func(user, password string) (string, bool) {
		who, _ := sim.TokenInfo(password)
		return who, sim.Pull(user, password, "project/team/app") == nil
	})
	useMirror(t, w, p, "artifactregistry", googleRegistry, sim.Env(), keys...)
}

// useTokens has the kubelet send service accounts' tokens.
func useTokens(p *kubeletv1.CredentialProvider, audience string) {
	yes := true
	p.TokenAttributes = &kubeletv1.ServiceAccountTokenAttributes{
		ServiceAccountTokenAudience: audience, RequireServiceAccount: &yes, CacheType: kubeletv1.ServiceAccountServiceAccountTokenCacheType,
	}
}
