package registration_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

var leaked = types.NamespacedName{Namespace: "kube-system", Name: "isthmus-webhook-tls"}

// startSelfManaged runs a replica with a certificate from the Secret that all share.
func (c *cluster) startSelfManaged(t *testing.T) *replica {
	t.Helper()
	source := certs.NewSelfManaged(c, certs.SelfManagedOptions{Secret: leaked, Hosts: []string{"localhost"}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx) }()
	r := c.start(t, func(o *registration.Options, r *replica) {
		r.knows = func() string { return string(source.CABundle()) }
		o.CABundle, o.Ready = source.CABundle, func(context.Context) error { return source.Err() }
	})
	keeper := r.stop
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			keeper()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (c *cluster) deleteSecret(t *testing.T) {
	t.Helper()
	if err := c.CoreV1().Secrets(leaked.Namespace).Delete(t.Context(), leaked.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) registered(t *testing.T) string {
	t.Helper()
	if v := c.validating(t); v != nil {
		return string(v.Webhooks[0].ClientConfig.CABundle)
	}
	return ""
}

// TestLeakedCA is what docs/guides/webhook-certificates.md says ends the trust in a CA at once,
// and why nothing less does.
func TestLeakedCA(t *testing.T) {
	c := newCluster(t)
	old := []*replica{c.startSelfManaged(t), c.startSelfManaged(t)}
	for _, r := range old {
		r.settle(t)
	}
	ca := c.registered(t)
	if len(ca) == 0 {
		t.Fatal("no CA is registered")
	}
	secret := func() string {
		s, err := c.CoreV1().Secrets(leaked.Namespace).Get(t.Context(), leaked.Name, metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return string(s.Data["ca.crt"])
	}
	c.deleteSecret(t)
	eventually.True(t, "replicas that run restore the Secret", func() bool { return secret() == ca })
	// End all replicas, delete configurations and Secret, start.
	for _, r := range old {
		r.stop()
	}
	if err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.deleteSecret(t)
	young := []*replica{c.startSelfManaged(t), c.startSelfManaged(t)}
	eventually.True(t, "another CA is registered", func() bool {
		if strings.Contains(c.registered(t), ca) {
			t.Fatal("the leaked CA is registered again")
		}
		return c.registered(t) != ""
	})
	for _, r := range young {
		r.settle(t)
	}
	wait(t, 300*time.Millisecond)
	if now := c.registered(t); strings.Contains(now, ca) || now != secret() {
		t.Error("what is registered is not the new CA alone")
	}
	for _, r := range young {
		r.stop()
	}
	c.deleteSecret(t)
}

// TestLeakedCAWhileServing is what the guide says removes a CA that replicas serve with no more,
// while they serve: none puts it back.
func TestLeakedCAWhileServing(t *testing.T) {
	c := newCluster(t)
	replicas := []*replica{c.startSelfManaged(t), c.startSelfManaged(t)}
	for _, r := range replicas {
		r.settle(t)
	}
	old := c.registered(t)
	next, key := issuer(t)
	secrets := c.CoreV1().Secrets(leaked.Namespace)
	patch := func(patch any) {
		t.Helper()
		data, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := secrets.Patch(t.Context(), leaked.Name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(map[string]any{"data": map[string]any{"next-issuer.crt": next, "next-issuer.key": key}})
	patch(map[string]any{"data": map[string]any{"issuer.key": nil}})
	both := func() bool {
		now := c.registered(t)
		return strings.Contains(now, old) && strings.Contains(now, string(next))
	}
	eventually.True(t, "both are registered", both)
	eventually.True(t, "the new one issues", func() bool {
		s, err := secrets.Get(t.Context(), leaked.Name, metav1.GetOptions{})
		return err == nil && bytes.Equal(s.Data["issuer.crt"], next)
	})
	patch(map[string]any{"data": map[string]any{"retired.crt": nil}})
	eventually.True(t, "no replica knows the old one", func() bool { return replicas[0].knows() == string(next) && replicas[1].knows() == string(next) })
	if !both() {
		t.Error("a CA went by itself")
	}
	before := replicas[0].writes.Load() + replicas[1].writes.Load()
	c.inject(t, string(next))
	m := c.mutating(t)
	m.Webhooks[0].ClientConfig.CABundle = next
	if _, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		r.settle(t)
	}
	wait(t, 500*time.Millisecond)
	if n := replicas[0].writes.Load() + replicas[1].writes.Load() - before; n != 0 || c.registered(t) != string(next) {
		t.Errorf("%d writes, registered is\n%s", n, c.registered(t))
	}
	for _, r := range replicas {
		r.stop()
	}
	c.deleteSecret(t)
}

// issuer returns a CA that was made some hours ago, and its key.
func issuer(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "next"}, NotBefore: time.Now().Add(-3 * time.Hour),
		NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}
