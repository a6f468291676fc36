package differential_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// TestFailedByOrder: the success of an attempt from before, whose event comes late, is not taken for the end of the last attempt.
func TestFailedByOrder(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "a"}
	for name, c := range map[string]struct {
		done, failed string // resource versions of the last events
		want         bool
	}{
		"success comes late":     {done: "9", failed: "10", want: true},
		"success after failures": {done: "10", failed: "9", want: false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}},
				event("EnsuredLoadBalancer", c.done, 2), event("SyncLoadBalancerFailed", c.failed, 1), event("EnsuringLoadBalancer", "11", 3))
			now, err := (&differential.Observer{Client: client}).Mark(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, err := differential.ReadServices(t.Context(), client, symbol.New("net", "keys"), differential.Mark{key: {Done: 1}}, now)
			if err != nil {
				t.Fatal(err)
			}
			if got[key].Failed != c.want {
				t.Errorf("failed: %v, want %v (%+v)", got[key].Failed, c.want, now[key])
			}
		})
	}
}

func event(reason, version string, times int32) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: reason, ResourceVersion: version}, Reason: reason, Count: times,
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "ns", Name: "a"}}
}
