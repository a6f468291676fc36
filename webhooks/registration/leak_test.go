package registration_test

import (
	"context"
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
	r := c.start(t, func(o *registration.Options, _ *replica) {
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
