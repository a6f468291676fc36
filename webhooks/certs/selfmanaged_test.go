package certs_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
)

// replicas are Sources of one Secret.
type replicas struct {
	client kubernetes.Interface
	secret types.NamespacedName
	clock  *clock
	all    []*certs.SelfManaged
}

// startReplicas starts n replicas at the same moment, and stops them with the test.
func startReplicas(t *testing.T, client kubernetes.Interface, name string, n int, hosts ...string) *replicas {
	t.Helper()
	r := &replicas{client: client, secret: types.NamespacedName{Namespace: "kube-system", Name: name}, clock: &clock{now: time.Now()}}
	for range n {
		r.start(t, append(certstest.Hosts(), hosts...)...)
	}
	return r
}

// start starts one replica; end stops it before the test ends.
func (r *replicas) start(t *testing.T, hosts ...string) (s *certs.SelfManaged, end func()) {
	t.Helper()
	s = certs.NewSelfManaged(r.client, certs.SelfManagedOptions{Secret: r.secret, Hosts: hosts, Interval: 20 * time.Millisecond, Now: r.clock.Now})
	r.all = append(r.all, s)
	end = once(run(t, s))
	t.Cleanup(end)
	return s, end
}

func once(f func()) func() {
	var done atomic.Bool
	return func() {
		if done.CompareAndSwap(false, true) {
			f()
		}
	}
}

// agree waits until all replicas serve what the Secret holds, and returns it.
func (r *replicas) agree(t *testing.T) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	eventually.True(t, "all replicas serve what the Secret holds", func() bool {
		var err error
		if secret, err = r.client.CoreV1().Secrets(r.secret.Namespace).Get(t.Context(), r.secret.Name, metav1.GetOptions{}); err != nil {
			return false
		}
		for _, s := range r.all {
			if s.Err() != nil || !bytes.Equal(s.CABundle(), secret.Data["ca.crt"]) || !serves(s, secret) || !holds(t, s, s.CABundle(), r.clock.Now()) {
				return false
			}
		}
		return true
	})
	return secret
}

// repaired waits until nothing in the Secret is as testEdited breaks it: what it breaks next would
// else be restored with it, from what the replicas served before.
func (r *replicas) repaired(t *testing.T) {
	t.Helper()
	eventually.True(t, "the Secret is repaired", func() bool {
		secret, err := r.client.CoreV1().Secrets(r.secret.Namespace).Get(t.Context(), r.secret.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, key := range []string{"tls.crt", "tls.key", "ca.crt", "issuer.crt", "issuer.key"} {
			if len(secret.Data[key]) < 2 {
				return false
			}
		}
		_, broken := secret.Data["retired.crt"]
		return !broken
	})
}

func serves(s certs.Source, secret *corev1.Secret) bool {
	cert, err := s.GetCertificate(nil)
	return err == nil && bytes.Equal(certstest.PEM(cert.Leaf), secret.Data["tls.crt"])
}

// change edits the Secret as a hand does.
func (r *replicas) change(t *testing.T, patch string) {
	t.Helper()
	if _, err := r.client.CoreV1().Secrets(r.secret.Namespace).Patch(t.Context(), r.secret.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// listed waits until a replica that starts now finds key with value. Its first list may come from the API
// server's cache, which may lag: a replica that finds what was there before repairs what came after it.
func (r *replicas) listed(t *testing.T, key, value string) {
	t.Helper()
	eventually.True(t, "a list from the API server's cache has "+key, func() bool {
		list, err := r.client.CoreV1().Secrets(r.secret.Namespace).List(t.Context(), metav1.ListOptions{
			ResourceVersion: "0", FieldSelector: "metadata.name=" + r.secret.Name,
		})
		return err == nil && len(list.Items) == 1 && string(list.Items[0].Data[key]) == value
	})
}

func TestSelfManaged(t *testing.T) {
	cp := controlplane.Start(t)
	for name, test := range map[string]func(*testing.T, kubernetes.Interface){
		"start at once": testStartAtOnce, "rotation": testRotation, "deleted": testDeleted, "edited": testEdited,
		"not ours": testNotOurs, "hosts differ": testHostsDiffer, "unreadable": testUnreadable, "no namespace": testNoNamespace, "log": testLog,
	} {
		t.Run(name, func(t *testing.T) { test(t, cp.Client) })
	}
	t.Run("RBAC", func(t *testing.T) { testRBAC(t, cp) })
	t.Run("clock ahead", func(t *testing.T) { testClockAhead(t, cp) })
}

// testStartAtOnce: replicas that start at the same moment end with one CA.
func testStartAtOnce(t *testing.T, client kubernetes.Interface) {
	r := startReplicas(t, client, "at-once", 8)
	secret := r.agree(t)
	if n := bytes.Count(secret.Data["ca.crt"], []byte("BEGIN")); n != 1 {
		t.Errorf("%d CAs, want one", n)
	}
	if left := r.all[0].NotAfter().Sub(r.clock.Now()); left < 29*day || left > 30*day {
		t.Errorf("valid for %s, want a month", left)
	}
	<-time.After(100 * time.Millisecond)
	again := r.agree(t)
	if again.ResourceVersion != secret.ResourceVersion {
		t.Error("the Secret was written again without a reason")
	}
	late, _ := r.start(t, certstest.Hosts()...)
	if again := r.agree(t); again.ResourceVersion != secret.ResourceVersion || !serves(late, secret) {
		t.Error("a replica that came later wrote the Secret")
	}
}

// testRotation goes through two lives of a CA. Clients that have the bundle of the time
// before connect to every replica at each point.
func testRotation(t *testing.T, client kubernetes.Interface) {
	r := startReplicas(t, client, "rotation", 3)
	before, bundles := r.agree(t).Data["ca.crt"], map[string]bool{}
	for range 2 * 365 / 5 {
		r.clock.add(5 * day)
		secret := r.agree(t)
		for i, s := range r.all {
			if !holds(t, s, before, r.clock.Now()) {
				t.Fatalf("at %s a client with the bundle of 5 days before cannot connect to replica %d", r.clock.Now(), i)
			}
		}
		before = secret.Data["ca.crt"]
		bundles[string(before)] = true
	}
	if len(bundles) < 6 {
		t.Errorf("%d bundles in two years, want that CAs come and go", len(bundles))
	}
}

// testDeleted: while a replica runs, the Secret comes back as it was.
func testDeleted(t *testing.T, client kubernetes.Interface) {
	r := startReplicas(t, client, "deleted", 3)
	before := r.agree(t)
	if err := client.CoreV1().Secrets("kube-system").Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	after := r.agree(t)
	if after.UID == before.UID || !bytes.Equal(after.Data["tls.crt"], before.Data["tls.crt"]) || !bytes.Equal(after.Data["issuer.key"], before.Data["issuer.key"]) {
		t.Error("what was served before is not served any more")
	}
}

// testEdited: what a hand breaks is repaired without a client noticing.
func testEdited(t *testing.T, client kubernetes.Interface) {
	r := startReplicas(t, client, "edited", 2)
	before := r.agree(t).Data["ca.crt"]
	for key, patch := range map[string]string{
		"tls.crt": `{"data":{"tls.crt":"eA=="}}`, "tls.key": `{"data":{"tls.key":null}}`, "ca.crt": `{"data":{"ca.crt":null}}`,
		"issuer.crt": `{"data":{"issuer.crt":"eA=="}}`, "retired.crt": `{"data":{"retired.crt":"eA=="}}`, "all": `{"data":null}`,
	} {
		r.change(t, patch)
		r.repaired(t)
		if after := r.agree(t).Data["ca.crt"]; !bytes.Equal(before, after) {
			t.Errorf("the CA changed after an edit of %s", key)
		}
	}
	r.change(t, `{"data":{"mine":"eA=="}}`)
	r.change(t, `{"data":{"issuer.key":null}}`)
	eventually.True(t, "the CA without a key gets a successor", func() bool { return bytes.Count(r.all[0].CABundle(), []byte("BEGIN")) == 2 })
	if !holds(t, r.all[0], before, r.clock.Now()) {
		t.Error("the successor is used before clients can know it")
	}
	r.clock.add(61 * time.Minute)
	eventually.True(t, "the successor takes over", func() bool { return !holds(t, r.all[0], before, r.clock.Now()) })
	if after := r.agree(t); string(after.Data["mine"]) != "x" {
		t.Error("a key that is not ours went")
	}
}

// testNotOurs: a Secret of somebody else stays as it is, and the error says so.
func testNotOurs(t *testing.T, client kubernetes.Interface) {
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string][]byte{"tls.crt": []byte("x")}}
	theirs, err := client.CoreV1().Secrets("kube-system").Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := startReplicas(t, client, "theirs", 2)
	r.fail(t, `kube-system/theirs: the Secret is of type "Opaque", so it is not ours and stays as it is; delete it, or name another with --webhook-cert-secret`)
	after, err := client.CoreV1().Secrets("kube-system").Get(t.Context(), "theirs", metav1.GetOptions{})
	if err != nil || after.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("it was written: %v", err)
	}
	if err := client.CoreV1().Secrets("kube-system").Delete(t.Context(), "theirs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.agree(t)
}

// testHostsDiffer: replicas with other flags do not take turns with each other's certificate.
func testHostsDiffer(t *testing.T, client kubernetes.Interface) {
	r := startReplicas(t, client, "hosts", 1, "10.0.0.1")
	r.agree(t)
	r.start(t, append(certstest.Hosts(), "10.0.0.2", "other.example.com")...)
	eventually.True(t, "the certificate is for the second replica, too", func() bool {
		cert, err := r.all[1].GetCertificate(nil)
		return err == nil && cert.Leaf.VerifyHostname("10.0.0.2") == nil
	})
	for range 8 { // through renewals
		r.clock.add(5 * day)
		r.agree(t)
		cert, err := r.all[0].GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"10.0.0.1", "10.0.0.2", "other.example.com"} {
			if err := cert.Leaf.VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
	}
	if cert, err := r.all[0].GetCertificate(nil); err != nil || len(cert.Leaf.IPAddresses) != 4 {
		t.Errorf("addresses %v, %v, want each one once", cert.Leaf.IPAddresses, err)
	}
}

// testUnreadable: a replica that starts with a Secret that cannot be read says which key is wrong and how
// to go on, and keeps what may be somebody's only copy.
func testUnreadable(t *testing.T, client kubernetes.Interface) {
	const name = "unreadable"
	r := startReplicas(t, client, name, 0)
	_, end := r.start(t, certstest.Hosts()...)
	r.agree(t)
	end()
	r.all = nil
	r.change(t, `{"data":{"issuer.crt":"czNjcmV0"}}`)
	r.listed(t, "issuer.crt", "s3cret")
	r.start(t, certstest.Hosts()...)
	r.fail(t, "key issuer.crt: no certificate in it; it must be PEM; put back what it was, or delete the Secret to have everything issued anew")
	if err := client.CoreV1().Secrets("kube-system").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.agree(t)
}

// testRBAC: what ships is enough to create, renew and repair the Secret, and no more: it is this
// one only. Without it, the error says so.
func testRBAC(t *testing.T, cp *controlplane.ControlPlane) {
	ctx := t.Context()
	base, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Apply(ctx, base); err != nil {
		t.Fatal(err)
	}
	config, err := cp.ServiceAccountConfig(ctx, manifests.Namespace, manifests.ServiceAccount, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r := startReplicas(t, client, "isthmus-webhook-tls", 2)
	r.fail(t, "apply the RBAC of --webhook-cert-source: see docs/guides/webhook-certificates.md")
	own, err := manifests.SelfManagedRBAC()
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Apply(ctx, own); err != nil {
		t.Fatal(err)
	}
	r.client = cp.Client // reads what the replicas may only list
	bundle := r.agree(t).Data["ca.crt"]
	r.clock.add(25 * day)
	if err := cp.Client.CoreV1().Secrets("kube-system").Delete(ctx, r.secret.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if after := r.agree(t); !bytes.Equal(after.Data["ca.crt"], bundle) {
		t.Error("the CA changed")
	}
	secrets := client.CoreV1().Secrets("kube-system")
	for what, try := range map[string]func() error{
		"list":   func() error { _, err := secrets.List(ctx, metav1.ListOptions{}); return err },
		"delete": func() error { return secrets.Delete(ctx, r.secret.Name, metav1.DeleteOptions{}) },
		"create": func() error {
			_, err := secrets.Apply(ctx, applycorev1.Secret("other", "kube-system"), metav1.ApplyOptions{FieldManager: "x"})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want that it is forbidden", what, err)
		}
	}
}

func testNoNamespace(t *testing.T, client kubernetes.Interface) {
	r := startReplicas(t, client, "x", 0)
	r.secret.Namespace = "missing"
	r.start(t, certstest.Hosts()...)
	r.fail(t, `namespaces "missing" not found; create the namespace, or name another with --webhook-cert-secret`)
}

// testLog: at no verbosity does the log, also client-go's, show what is in the Secret.
func testLog(t *testing.T, client kubernetes.Interface) {
	var mu sync.Mutex
	var log strings.Builder
	logger := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		log.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 10})
	r := startReplicas(t, client, "log", 0)
	s := certs.NewSelfManaged(client, certs.SelfManagedOptions{Secret: r.secret, Hosts: certstest.Hosts(), Interval: 20 * time.Millisecond, Now: r.clock.Now})
	r.all = append(r.all, s)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
	var g errgroup.Group
	g.Go(func() error { return s.Run(ctx) })
	r.agree(t)
	r.change(t, `{"data":{"tls.key":null}}`)
	r.agree(t)
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if text := log.String(); !strings.Contains(text, "Webhook certificate was issued") || strings.Contains(text, " Body") || strings.Contains(text, "LS0tLS1CRUdJTi") {
		t.Errorf("the log shows content of the Secret, or nothing at all:\n%s", text)
	}
}

// TestDefectCertificateOnlyForLocalhost: the framework's certificate is for localhost, in the
// memory of one process, and its CA is nowhere to be had. Ours is for the webhooks' Service,
// the API server has the CA, and the next process serves the same certificate.
func TestDefectCertificateOnlyForLocalhost(t *testing.T) {
	cp := controlplane.Start(t)
	options := certs.NewOptions()
	options.Source, options.Hosts = certs.SourceSelfManaged, webhooks.DefaultService().DNSNames()
	var serials []string
	for range 2 {
		s, err := certs.New(t.Context(), *options, cp.Config)
		if err != nil {
			t.Fatal(err)
		}
		end := run(t, s)
		eventually.True(t, "a certificate is served", func() bool { return s.Err() == nil })
		end()
		secret, err := cp.Client.CoreV1().Secrets("kube-system").Get(t.Context(), "isthmus-webhook-tls", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		cert, err := s.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "isthmus-webhook.kube-system.svc"}); err != nil {
			t.Errorf("an API server that has the CA from the Secret cannot call: %v", err)
		}
		serials = append(serials, cert.Leaf.SerialNumber.String())
	}
	if serials[0] != serials[1] {
		t.Errorf("certificates %v: a process serves another one than the process before it", serials)
	}
}

// fail waits until all replicas say why they have no certificate.
func (r *replicas) fail(t *testing.T, want string) {
	t.Helper()
	for _, s := range r.all {
		eventually.True(t, "error "+want, func() bool { return s.Err() != nil && strings.Contains(s.Err().Error(), want) })
		if _, err := s.GetCertificate(nil); err == nil || !s.NotAfter().IsZero() || len(s.CABundle()) > 0 {
			t.Error("there is a certificate nevertheless")
		}
		if text := s.Err().Error(); strings.Contains(text, "s3cret") || strings.Contains(text, "\n") {
			t.Errorf("error %q has a secret or several lines", text)
		}
	}
}

// TestAPIServerAway: a Source starts without the API server, and says so.
func TestAPIServerAway(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	startReplicas(t, client, "x", 1).fail(t, "Secret kube-system/x: read the Secret: ")
}
