//go:build e2e

package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// The simulated AWS account, and the ECR registry whose logins our registry takes in its place.
const (
	account     = "111122223333"
	region      = "eu-central-1"
	ecrRegistry = account + ".dkr.ecr." + region + ".amazonaws.com"
)

// startAWS starts a simulated AWS with a role for the node and, for the service accounts of
// the cluster, one that trusts "app" alone. podRole is the latter's ARN.
func startAWS(t *testing.T, plane *controlplane.ControlPlane, o awssim.Options) (sim *awssim.Sim, podRole string) {
	t.Helper()
	sim, err := awssim.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	actions := []string{"ecr:*", "sts:*"}
	sim.SetInstanceRole(sim.AddRole(awssim.Principal{Account: account, Name: "node", Actions: actions}))
	podRole = sim.AddRole(awssim.Principal{Account: account, Name: "pods", Actions: actions, Trust: awssim.Trust{Subjects: []string{"system:serviceaccount:" + namespace + ":app"}}})
	issuer, key := clusterIssuer(t, plane)
	sim.Trust(issuer, key)
	return sim, podRole
}

// ecrLogins lets in whom the simulated AWS gave a login for ECR.
func ecrLogins(sim *awssim.Sim) login {
	opens := sim.Registry(account, region)
	return func(user, password string) (string, bool) { return user, opens(user, password) }
}

// keystoneLogins lets in application credentials, in Keppel's form, that the simulated Keystone knows.
func keystoneLogins(t *testing.T, sim *ossim.Sim) login {
	return func(user, password string) (string, bool) {
		id, ok := strings.CutPrefix(user, "applicationcredential-")
		if !ok {
			return "", false
		}
		session, err := auth.New(auth.Config{AuthURL: sim.AuthURL(), ApplicationCredentialID: id, ApplicationCredentialSecret: cloudauth.NewSecret(password)}, auth.Options{})
		return "application-credential", err == nil && session.Check(t.Context()) == nil
	}
}

// cloudConf writes a cloud.conf with an application credential of the simulator's user.
func cloudConf(t *testing.T, sim *ossim.Sim, title, registries string) (file string, credential ossim.AppCredential) {
	t.Helper()
	credential = sim.AddApplicationCredential(title)
	return write(t, title+"/cloud.conf", fmt.Sprintf("[Global]\nauth-url = %s\nregion = RegionOne\napplication-credential-id = %s\napplication-credential-secret = %q\n%s",
		sim.AuthURL(), credential.ID, credential.Secret, registries)), credential
}

// clusterIssuer is the issuer of the cluster's service account tokens with its key, as the
// kube-apiserver publishes them.
func clusterIssuer(t *testing.T, plane *controlplane.ControlPlane) (string, *ecdsa.PublicKey) {
	t.Helper()
	var about struct{ Issuer string }
	var set struct{ Keys []struct{ Crv, X, Y string } }
	for path, into := range map[string]any{"/.well-known/openid-configuration": &about, "/openid/v1/jwks": &set} {
		data, err := plane.Client.RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if len(set.Keys) != 1 || set.Keys[0].Crv != "P-256" {
		t.Fatalf("the cluster signs with %+v, want one key on P-256", set)
	}
	point := []byte{4} // uncompressed
	for _, s := range []string{set.Keys[0].X, set.Keys[0].Y} {
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		point = append(point, b...)
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		t.Fatal(err)
	}
	return about.Issuer, key
}

// allowAudience lets nodes request tokens for an audience, without which kube-apiserver refuses it.
func allowAudience(t *testing.T, plane *controlplane.ControlPlane, audience string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "image-pull-audience"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"request-serviceaccounts-token-audience"}, APIGroups: []string{""}, Resources: []string{audience}}}}
	if _, err := plane.Client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	}
	if _, err := plane.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// useECR completes a provider: the registry is a mirror of the simulated ECR.
func useECR(t *testing.T, w *world, sim *awssim.Sim, p *kubeletv1.CredentialProvider, identity string) {
	t.Helper()
	w.logins.allow(p.Name, ecrLogins(sim))
	p.Args = []string{"--config=" + write(t, p.Name+"/options.yaml", fmt.Sprintf(`apiVersion: isthmus-cloud.github.io/v1
kind: CredentialProviderOptions
ecr:
  identity: %s
  mirrors: [{upstream: %q, registry: %s}]
`, identity, w.tokens.host, ecrRegistry))}
	for _, e := range append(sim.Env(), "AWS_CONFIG_FILE=/nowhere", "AWS_SHARED_CREDENTIALS_FILE=/nowhere") {
		name, value, _ := strings.Cut(e, "=")
		p.Env = append(p.Env, kubeletv1.ExecEnvVar{Name: name, Value: value})
	}
	if identity == "serviceAccount" {
		useTokens(p, awssim.Audience)
	}
}

// useTokens has the kubelet send service accounts' tokens.
func useTokens(p *kubeletv1.CredentialProvider, audience string) {
	yes := true
	p.TokenAttributes = &kubeletv1.ServiceAccountTokenAttributes{
		ServiceAccountTokenAudience: audience, RequireServiceAccount: &yes, CacheType: kubeletv1.ServiceAccountServiceAccountTokenCacheType,
		OptionalServiceAccountAnnotationKeys: []string{"isthmus-cloud.github.io/ecr-role-arn"},
	}
}
