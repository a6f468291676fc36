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

	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/test/cloudsim"
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
	trust(t, plane, sim.Issuer)
	return sim, podRole
}

// trust lets a simulated cloud take the tokens of the cluster's service accounts.
func trust(t *testing.T, plane *controlplane.ControlPlane, issuer *cloudsim.Issuer) {
	t.Helper()
	url, key := clusterIssuer(t, plane)
	issuer.Trust(url, key)
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

// allowAudiences lets nodes request tokens for audiences, without which kube-apiserver refuses it.
func allowAudiences(t *testing.T, plane *controlplane.ControlPlane, audiences ...string) {
	t.Helper()
	rbac, err := kubelet.AudienceRBAC("image-pull-audience", audiences)
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.Apply(t.Context(), rbac); err != nil {
		t.Fatal(err)
	}
}
