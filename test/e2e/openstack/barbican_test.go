//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// A Service with a Barbican container gets a listener that ends TLS with it. The login is a
// user's: to read the certificate, Octavia gets itself a token by the caller's, which
// Keystone refuses for tokens of application credentials.
func TestTLSFromBarbican(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(2)
	certificate, key := selfSigned(t)
	container, err := containers.Create(t.Context(), c.cloud.member.keyManager, containers.CreateOpts{
		Type: containers.CertificateContainer, Name: "e2e-tls",
		SecretRefs: []containers.SecretRef{
			{Name: "certificate", SecretRef: c.cloud.secret(t, "e2e-certificate", certificate).SecretRef},
			{Name: "private_key", SecretRef: c.cloud.secret(t, "e2e-key", key).SecretRef},
		},
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := c.cloud.cleanup(func(ctx context.Context) error {
			return containers.Delete(ctx, c.cloud.member.keyManager, path.Base(container.ContainerRef)).ExtractErr()
		})
		if err != nil {
			t.Errorf("delete container: %v", err)
		}
	})
	c.startManagerWith(fmt.Sprintf("[Global]\nauth-url = %s\nregion = %s\nuser-id = %s\npassword = %s\ntenant-id = %s\n",
		c.proxy.authURL, c.cloud.region, c.cloud.member.userID, memberPassword, c.cloud.member.projectID))
	c.initialized(nodes)
	s := c.service("tls", annotated(map[string]string{annotationPrefix + "default-tls-container-ref": container.ContainerRef, annotationInternal: "true"}), tcp(443))
	c.address("tls")
	lb := c.lb("tls")
	c.served("TLS is ended", lb.ID, "TERMINATED_HTTPS/443 → HTTP "+membersAt(nodes, s.Spec.Ports[0].NodePort, 0))
	for _, l := range c.state().listeners {
		if l.DefaultTlsContainerRef != container.ContainerRef {
			t.Errorf("listener %s has the certificate %q, want %q", l.Name, l.DefaultTlsContainerRef, container.ContainerRef)
		}
	}
	c.remove("tls")
	c.nothingLeft()
}

// The credential provider gets a registry's login out of Barbican, as the kubelet runs it.
func TestCredentialsFromBarbican(t *testing.T) {
	cloud := theCloud(t)
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		"registry.example.com:5000": map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte("puller:from-barbican"))},
		"other.example.com":         map[string]string{"username": "other", "password": "of-another-registry"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	cloud.secret(t, "e2e-registry", string(config))
	conf := writeConf(t, cloud.conf("[Registry \"registry.example.com:5000\"]\ntype = barbican\nsecret = e2e-registry"))
	cmd := exec.CommandContext(t.Context(), binary(t, "credential-provider"), "--cloud-config="+conf)
	cmd.Stdin = strings.NewReader(`{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderRequest","image":"registry.example.com:5000/team/app:1"}`)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var got credentialproviderv1.CredentialProviderResponse
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	want := map[string]credentialproviderv1.AuthConfig{"registry.example.com:5000": {Username: "puller", Password: "from-barbican"}}
	if diff := cmp.Diff(want, got.Auth); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	if strings.Contains(stderr.String(), "from-barbican") || strings.Contains(stderr.String(), cloud.cred.Secret) {
		t.Errorf("stderr shows a secret: %s", stderr.String())
	}
}

// secret stores a secret in Barbican and removes it when t ends.
func (c *realCloud) secret(t testing.TB, name, payload string) *secrets.Secret {
	t.Helper()
	s, err := secrets.Create(t.Context(), c.member.keyManager, secrets.CreateOpts{Name: name, Payload: payload, PayloadContentType: "text/plain", SecretType: secrets.OpaqueSecret}).Extract()
	if err != nil {
		t.Fatalf("store secret %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := c.cleanup(func(ctx context.Context) error {
			return secrets.Delete(ctx, c.member.keyManager, path.Base(s.SecretRef)).ExtractErr()
		}); err != nil {
			t.Errorf("delete secret %s: %v", name, err)
		}
	})
	return s
}

func selfSigned(t testing.TB) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", encoded)
}
