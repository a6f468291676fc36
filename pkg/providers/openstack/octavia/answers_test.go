package octavia

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// TestAnswersOfSomethingElse: a 2xx with another document, as something between us and the cloud
// gives it, fails one operation; nothing is remembered of it, and the next one goes on.
func TestAnswersOfSomethingElse(t *testing.T) {
	for _, tt := range []struct{ service, method, path string }{
		{"load-balancer", http.MethodPost, "/lbaas/loadbalancers"},
		{"load-balancer", http.MethodPost, "/lbaas/listeners"},
		{"load-balancer", http.MethodPost, "/lbaas/pools"},
		{"load-balancer", http.MethodPost, "/lbaas/healthmonitors"},
		{"network", http.MethodPost, "/floatingips"},
		{"network", http.MethodPost, "/security-groups"},
		{"network", http.MethodGet, "/subnets/*"},
	} {
		for _, body := range []string{"{}", "null", `{"listener":null,"pool":null,"floatingip":null,"subnet":null}`, "<html>"} {
			t.Run(tt.method+tt.path+" "+body[:min(len(body), 6)], func(t *testing.T) {
				x := newLBTest(t, 2, "create-monitor=true\nmanage-security-groups=true\nprovider-requires-serial-api-calls=true\n")
				x.spec.IPFamilies = append(x.spec.IPFamilies, corev1.IPv6Protocol)
				remove := x.sim.AddFault(ossim.Fault{Service: tt.service, Method: tt.method, Path: tt.path, Body: body})
				if _, err := x.lbs.Ensure(testContext(t), x.spec); err == nil {
					t.Error("Ensure takes the document for an answer")
				}
				remove()
				now := x.lbs.now()
				x.lbs.now = func() time.Time { return now.Add(lostCreation) } // found by its name until then
				x.ensure(x.spec)
				got := x.objects()
				x.delete(x.spec)
				x.wantNothing("after the deletion")
				x.ensure(x.spec)
				if want := x.objects(); !slices.Equal(kinds(got), kinds(want)) {
					t.Errorf("objects %q, want %q", got, want)
				}
			})
		}
	}
}

// kinds are objects without what differs each time.
func kinds(objects []string) []string {
	return slices.DeleteFunc(slices.Clone(objects), func(o string) bool {
		return strings.HasPrefix(o, "floatingip ") || strings.HasPrefix(o, "group lb-")
	})
}
