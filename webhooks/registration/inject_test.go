package registration_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

const injectAnnotation = "cert-manager.io/inject-ca-from"

func injecting(o *registration.Options, _ *replica) { o.InjectCAFrom = "kube-system/isthmus-webhook" }

// What cert-manager's cainjector adds to the caBundle stays.
func TestInjectedCAStays(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, injecting)
	n := r.settle(t)
	m := c.mutating(t)
	if got := m.Annotations[injectAnnotation]; got != "kube-system/isthmus-webhook" || string(m.Webhooks[0].ClientConfig.CABundle) != authority("ca") {
		t.Fatalf("annotation %q, caBundle %q", got, m.Webhooks[0].ClientConfig.CABundle)
	}
	c.inject(t, authority("ca")+authority("injected"))
	wait(t, 500*time.Millisecond)
	if got := r.settle(t); got != n {
		t.Errorf("%d writes after the injection", got-n)
	}
	// Other edits are repaired, and the injected CA stays then, too.
	patch := `[{"op":"add","path":"/webhooks/0/matchConditions","value":[{"name":"never","expression":"false"}]}]`
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), registration.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is repaired", func() bool { return len(c.validating(t).Webhooks[0].MatchConditions) == 0 })
	r.settle(t)
	if got := c.trusted(t, "ca", "injected"); got != "ca injected" {
		t.Errorf("after a repair, trusted are %q", got)
	}
	// The bundle is cainjector's alone.
	n = r.settle(t)
	c.inject(t, authority("injected"))
	wait(t, 500*time.Millisecond)
	if got := r.settle(t); got != n || c.trusted(t, "ca", "injected") != "injected" {
		t.Errorf("%d writes after the injection, trusted are %q", got-n, c.trusted(t, "ca", "injected"))
	}
	// From injection to our own bundle.
	r.stop()
	c.start(t, nil).settle(t)
	if _, ok := c.validating(t).Annotations[injectAnnotation]; ok || c.trusted(t, "ca", "injected") != "ca injected" {
		t.Errorf("annotations %v, trusted are %q", c.validating(t).Annotations, c.trusted(t, "ca", "injected"))
	}
}

// inject writes the caBundle as cainjector does.
func (c *cluster) inject(t *testing.T, bundle string) {
	t.Helper()
	v := c.validating(t)
	v.Webhooks[0].ClientConfig.CABundle = []byte(bundle)
	if _, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), v, metav1.UpdateOptions{FieldManager: "cainjector"}); err != nil {
		t.Fatal(err)
	}
}

// TestSwitchToInjection: while replicas are replaced by such that leave the CA to cainjector,
// which may not even run, every CA that is served stays trusted, and new ones become so.
func TestSwitchToInjection(t *testing.T) {
	c := newCluster(t)
	old := c.start(t, nil)
	old.settle(t)
	young := c.start(t, func(o *registration.Options, r *replica) { injecting(o, r); r.setCA(authority("issued")) })
	eventually.True(t, "both are trusted", func() bool { return c.trusted(t, "ca", "issued") == "ca issued" })
	old.stop()
	eventually.True(t, "cainjector may write", func() bool {
		if c.trusted(t, "ca", "issued") != "ca issued" {
			t.Fatal("a CA that is served is not trusted any more")
		}
		return c.validating(t).Annotations[injectAnnotation] != ""
	})
	young.settle(t)
}
