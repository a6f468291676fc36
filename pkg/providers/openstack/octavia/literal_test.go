package octavia

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// TestFloatingIPStaysWhenAnnotationIsNoBool: "True" and the like mean the default, as they do to
// existing controllers: taken for true they would cost the published address.
func TestFloatingIPStaysWhenAnnotationIsNoBool(t *testing.T) {
	x := newLBTest(t, 1, "")
	published := x.ensure(x.spec).Ingress[0].IP
	for _, value := range []string{"True", "1", "yes"} {
		x.spec.Settings[plan.AnnInternal] = value // as if nobody had checked it before
		if got := x.ensure(x.spec).Ingress[0].IP; got != published {
			t.Errorf("%s=%s: address %s, want %s", plan.AnnInternal, value, got, published)
		}
	}
}

// TestPortWithoutNodePort: it gets a listener, which nobody serves; the others are served.
func TestPortWithoutNodePort(t *testing.T) {
	x := newLBTest(t, 2, "")
	x.spec.Ports[0].NodePort = 0
	x.ensure(x.spec)
	tree := x.tree(x.spec)
	if a, b := len(tree.Pools[0].Members), len(tree.Pools[1].Members); len(tree.Listeners) != 2 || a+b != 2 || a*b != 0 {
		t.Errorf("%d listeners, %d and %d members", len(tree.Listeners), a, b)
	}
}
