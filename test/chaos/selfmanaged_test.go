package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// caBundles are the CA bundles of all webhooks that are registered.
func (c *cluster) caBundles(ctx context.Context) ([][]byte, error) {
	mutating, err := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	validating, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, configuration := range mutating.Items {
		for _, w := range configuration.Webhooks {
			out = append(out, w.ClientConfig.CABundle)
		}
	}
	for _, configuration := range validating.Items {
		for _, w := range configuration.Webhooks {
			out = append(out, w.ClientConfig.CABundle)
		}
	}
	return out, nil
}

// leaf is the certificate that r serves its webhooks with.
func (r *replica) leaf(ctx context.Context) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the certificate is what is asked for
	conn, err := dialer.DialContext(ctx, "tcp", r.webhook)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", r.name, err)
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// editSecret changes the data of the Secret with the replicas' own certificates.
func (c *cluster) editSecret(change func(data map[string][]byte)) {
	c.t.Helper()
	api := c.client.CoreV1().Secrets(metav1.NamespaceSystem)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := api.Get(c.t.Context(), secretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(secret.Data)
		_, err = api.Update(c.t.Context(), secret, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// agree returns what keeps the Secret, the registration and what the replicas serve from being
// one: the Secret's CAs are cas in number, each webhook's bundle has them, and each replica
// serves the Secret's certificate, which one of them issued.
func (c *cluster) agree(ctx context.Context, replicas []*replica, cas int) string {
	secret, err := c.client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	pool, bundle := x509.NewCertPool(), secret.Data["ca.crt"]
	pool.AppendCertsFromPEM(bundle)
	if n := bytes.Count(bundle, []byte("BEGIN CERTIFICATE")); n != cas {
		return fmt.Sprintf("the Secret has %d CAs, want %d", n, cas)
	}
	bundles, err := c.caBundles(ctx)
	if err != nil || len(bundles) < 2 {
		return fmt.Sprintf("%d webhooks are registered, %v", len(bundles), err)
	}
	for _, b := range bundles {
		if !slices.Equal(certificatesIn(b), certificatesIn(bundle)) {
			return "a webhook's CA bundle is not the Secret's"
		}
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err.Error()
	}
	for _, r := range replicas {
		leaf, err := r.leaf(ctx)
		if err != nil {
			return err.Error()
		}
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "isthmus-webhook.kube-system.svc", Roots: pool}); err != nil {
			return fmt.Sprintf("%s serves a certificate that nobody trusts: %v", r.name, err)
		}
		if !leaf.Equal(pair.Leaf) {
			return r.name + " does not serve the Secret's certificate"
		}
	}
	return ""
}

// certificatesIn returns the certificates of a bundle, whose order means nothing.
func certificatesIn(bundle []byte) []string {
	var found []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		found = append(found, string(block.Bytes))
	}
	slices.Sort(found)
	return found
}

func (c *cluster) waitAgreed(replicas []*replica, cas int) {
	c.t.Helper()
	eventually.Met(c.t, func() string { return c.agree(c.t.Context(), replicas, cas) })
}

// 2,000 creations while the replicas renew the certificate that they issue themselves, replace
// its CA and renew it again: none fails although the policy is Fail.
func TestRotatedCAFailsNoCreation(t *testing.T) {
	c := newCluster(t)
	replicas, b := c.selfManaged(3, admissionregistrationv1.Fail)
	c.startAll(replicas, b)
	c.waitAgreed(replicas, 1)
	const total = 2000
	ids := c.volumes(500)
	l := c.load("rotated", pace{perSecond: 200, inFlight: 10}, ids)

	loseLeaf := func(data map[string][]byte) { delete(data, corev1.TLSCertKey); delete(data, corev1.TLSPrivateKeyKey) }
	c.editSecret(loseLeaf) // as if it were about to expire: it is issued anew
	c.waitAgreed(replicas, 1)
	c.burst(b, ids)

	next := newAuthority(t) // old enough to take over as soon as the key of the one before is gone
	c.editSecret(func(data map[string][]byte) {
		data["next-issuer.crt"], data["next-issuer.key"] = next.bundle, next.keyPEM()
	})
	c.waitAgreed(replicas, 2)
	c.burst(b, ids)
	c.editSecret(func(data map[string][]byte) { delete(data, "issuer.key") })
	eventually.Met(t, func() string {
		for _, r := range replicas {
			if leaf, err := r.leaf(t.Context()); err != nil || leaf.CheckSignatureFrom(next.cert) != nil {
				return fmt.Sprintf("%s does not serve a certificate of the new CA: %v", r.name, err)
			}
		}
		return c.agree(t.Context(), replicas, 2) // the old one is trusted until what it issued expires
	})
	c.burst(b, ids)
	c.editSecret(loseLeaf)
	c.waitAgreed(replicas, 2)
	c.burst(b, ids)
	eventually.Met(t, func() string { // on a machine with nothing else to do, seconds
		if n := l.answered(); n < total {
			return fmt.Sprintf("%d creations of %d", n, total)
		}
		return ""
	})
	all := l.stop()
	t.Logf("%d creations: p50 %s, p99 %s, max %s", len(all), quantile(all, .5), quantile(all, .99), quantile(all, 1))
	mustAllBeLabeled(t, all)
}

// All replicas are killed at once, at the moments at which they have just begun to do something
// about certificates and registration. When they are started again, there is one CA, all
// webhooks are registered with it, and they are called.
func TestKilledInTheMiddleConverges(t *testing.T) {
	c := newCluster(t)
	replicas, b := c.selfManaged(3, admissionregistrationv1.Fail)
	has := func(what string) func(ctx context.Context) bool {
		return func(ctx context.Context) bool {
			var err error
			switch what {
			case "secret":
				_, err = c.client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, secretName, metav1.GetOptions{})
			case "mutating":
				_, err = c.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "isthmus", metav1.GetOptions{})
			case "validating":
				_, err = c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "isthmus", metav1.GetOptions{})
			}
			return err == nil
		}
	}
	at := func(reached func(context.Context) bool) {
		t.Helper()
		deadline := time.Now().Add(5 * time.Minute) // without a pause: the moment is short
		for !reached(t.Context()) {
			if time.Now().After(deadline) {
				t.Fatal("the moment to be killed at never came")
			}
		}
		for _, r := range replicas {
			r.kill()
		}
	}
	for _, moment := range []string{"secret", "mutating", "validating"} {
		if err := c.forgetCertificates(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range replicas {
			r.start()
		}
		at(has(moment))
		c.startAll(replicas, b)
		c.waitAgreed(replicas, 1)
		for _, r := range replicas {
			r.kill()
		}
	}
	// In the middle of a renewal: the CA stays.
	c.startAll(replicas, b)
	read := func() *corev1.Secret {
		secret, err := c.client.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), secretName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	before := read()
	c.editSecret(func(data map[string][]byte) { delete(data, corev1.TLSCertKey) })
	at(func(context.Context) bool { return len(read().Data[corev1.TLSCertKey]) > 0 })
	c.startAll(replicas, b)
	c.waitAgreed(replicas, 1)
	if !bytes.Equal(before.Data["ca.crt"], read().Data["ca.crt"]) {
		t.Error("the CA is another after a renewal in which all replicas were killed")
	}
}
