package certs_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
)

// countingWrites counts what a client writes.
type countingWrites struct {
	n    *atomic.Int64
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c countingWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		c.n.Add(1)
	}
	return c.next.RoundTrip(r)
}

// testClockAhead: what a replica issues whose clock runs ahead is valid for the others, or they
// keep what is, do not fight about it, and one of them that starts issues another.
func testClockAhead(t *testing.T, cp *controlplane.ControlPlane) {
	var writes atomic.Int64
	config := rest.CopyConfig(cp.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingWrites{&writes, next} })
	counted, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r := startReplicas(t, counted, "clock-ahead", 1)
	right := r.all[0]
	first := r.agree(t)
	r.client = cp.Client
	secret := func() *corev1.Secret {
		s, err := cp.Client.CoreV1().Secrets("kube-system").Get(t.Context(), r.secret.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mustHold := func() {
		t.Helper()
		if err := right.Err(); err != nil || !holds(t, right, right.CABundle(), r.clock.Now()) {
			t.Fatalf("a replica with the right clock serves a certificate that is not valid (%v)", err)
		}
	}
	ahead := func(by time.Duration) (*certs.SelfManaged, func()) {
		late := &clock{now: r.clock.Now().Add(by)}
		s := certs.NewSelfManaged(cp.Client, certs.SelfManagedOptions{Secret: r.secret, Hosts: certstest.Hosts(), Interval: 20 * time.Millisecond, Now: late.Now})
		return s, once(run(t, s))
	}

	// It renews the certificate much too early.
	s, end := ahead(25 * day)
	eventually.True(t, "it has renewed", func() bool { return s.Err() == nil && !bytes.Equal(secret().Data["tls.crt"], first.Data["tls.crt"]) })
	end()
	r.agree(t)
	mustHold()

	// It takes the CA for expired and makes another one.
	before := writes.Load()
	s, end = ahead(400 * day)
	t.Cleanup(end)
	old, err := right.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the other CA is trusted, too", func() bool {
		mustHold()
		return s.Err() == nil && bytes.Contains(right.CABundle(), s.CABundle())
	})
	if now, err := right.GetCertificate(nil); err != nil || !now.Leaf.Equal(old.Leaf) || !bytes.Contains(right.CABundle(), first.Data["ca.crt"]) {
		t.Errorf("what is valid was given up (%v)", err)
	}
	// One that starts has nothing valid to go on with.
	r.start(t, certstest.Hosts()...)
	young := r.all[1]
	eventually.True(t, "it serves a certificate that is valid", func() bool {
		mustHold()
		return young.Err() == nil && holds(t, young, young.CABundle(), r.clock.Now())
	})
	eventually.True(t, "the one ahead has its own again", func() bool { return s.Err() == nil && serves(s, secret()) && !serves(young, secret()) })
	settled := secret().ResourceVersion
	for range 20 { // looks of everybody, at once as the watch brings it
		r.change(t, `{"metadata":{"annotations":{"touched":"`+time.Now().String()+`"}}}`)
		settled = secret().ResourceVersion
	}
	mustHold()
	if n := writes.Load() - before; n != 0 {
		t.Errorf("the replica with the right clock and a valid certificate wrote %d times", n)
	}
	if text := secret(); text.ResourceVersion != settled || strings.TrimSpace(string(text.Data["tls.crt"])) == "" {
		t.Errorf("they fight over the Secret")
	}
}
