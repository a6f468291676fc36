package registration_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// trusted is what the replica's readiness says.
func (r *replica) trusted(t *testing.T) error {
	t.Helper()
	return r.keeper.Trusted(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
}

// forbidding makes a replica's writes fail while on is true.
func forbidding(t *testing.T, c *cluster, o *registration.Options, r *replica) {
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodGet && strings.Contains(req.URL.Path, "webhookconfigurations") {
				w := httptest.NewRecorder()
				http.Error(w, "not today", http.StatusForbidden)
				return w.Result(), nil
			}
			return next.RoundTrip(req)
		})
	})
	o.Client = r.client(t, config)
}

// TestTrustedBeforeReady: where webhooks are registered, a replica with another CA has it
// trusted before it is ready, and changes nothing else before.
func TestTrustedBeforeReady(t *testing.T) {
	c := newCluster(t)
	old := c.start(t, setPolicy("Ignore"))
	old.settle(t)
	young := c.start(t, func(o *registration.Options, r *replica) {
		setPolicy("Fail")(o, r)
		r.setCA(authority("young"))
		r.ready.Store(false)
	})
	eventually.True(t, "its CA is trusted", func() bool { return c.trusted(t, "ca", "young") == "ca young" })
	wait(t, 300*time.Millisecond)
	if c.policy(t) != "Ignore" || young.writes.Load() != 2 {
		t.Errorf("before it is ready, a replica made the policy %s with %d writes", c.policy(t), young.writes.Load())
	}
	young.ready.Store(true)
	if err := young.trusted(t); err != nil {
		t.Errorf("it is trusted, and says: %v", err)
	}
	old.stop()
	eventually.True(t, "its policy prevails", func() bool { return c.policy(t) == "Fail" })
}

// TestReadinessWaitsForTrust: a replica whose certificate would be refused is not ready, for a
// limited time; one that nobody calls yet is.
func TestReadinessWaitsForTrust(t *testing.T) {
	c := newCluster(t)
	first := c.start(t, func(o *registration.Options, r *replica) {
		forbidding(t, c, o, r)
	})
	eventually.True(t, "without webhook configurations it is ready", func() bool { return first.trusted(t) == nil })
	first.stop()
	old := c.start(t, nil)
	old.settle(t)
	young := c.start(t, func(o *registration.Options, r *replica) {
		r.setCA(authority("young"))
		forbidding(t, c, o, r)
	})
	var said string
	eventually.True(t, "it is ready although it is not trusted", func() bool {
		err := young.trusted(t)
		if err != nil {
			said = err.Error()
		}
		return err == nil
	})
	if !strings.Contains(said, "does not have the CA of this replica's certificate yet") || !strings.Contains(said, "not today") || strings.Contains(said, "\n") {
		t.Errorf("readiness said %q", said)
	}
	if c.trusted(t, "young") != "" || !strings.Contains(young.logged(), "Ready although") && young.trusted(t) != nil {
		t.Error("this test checks nothing")
	}
	alike := c.start(t, func(o *registration.Options, r *replica) { forbidding(t, c, o, r) })
	eventually.True(t, "with a CA that is trusted it is ready", func() bool { return alike.trusted(t) == nil })
}

// TestNewCAWaitsForNoEndpoint: with policy Fail, a CA is added also while the Service leads
// nowhere: no replica becomes ready before.
func TestNewCAWaitsForNoEndpoint(t *testing.T) {
	c := newCluster(t)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "isthmus-webhook-x", Labels: map[string]string{discoveryv1.LabelServiceName: "isthmus-webhook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
	}
	api := c.DiscoveryV1().EndpointSlices("kube-system")
	if _, err := api.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := func() { _ = api.Delete(context.WithoutCancel(t.Context()), slice.Name, metav1.DeleteOptions{}) }
	t.Cleanup(gone)
	fail := func(o *registration.Options, _ *replica) { o.FailurePolicies = []string{"Fail"} }
	old := c.start(t, fail)
	old.settle(t)
	gone()
	old.setCA(authority("ca") + authority("next"))
	eventually.True(t, "the next CA is trusted", func() bool { return c.trusted(t, "ca", "next") == "ca next" })
	c.start(t, func(o *registration.Options, r *replica) {
		r.setCA(authority("young"))
		o.FailurePolicies = []string{"maps=Fail"}
	})
	eventually.True(t, "that of a replica with other flags is trusted", func() bool { return c.trusted(t, "ca", "next", "young") == "ca next young" })
}
