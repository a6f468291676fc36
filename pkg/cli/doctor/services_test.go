package doctor

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
)

// In an outage many Services are stuck: their events are read at once, and each one has its own, the newest.
func TestEventsOfStuckServices(t *testing.T) {
	const stuck = 300
	client, now := fake.NewClientset(), time.Now()
	p := &patient{client: client, clock: clocktesting.NewFakePassiveClock(now)}
	event := func(i int, suffix, component string, age time.Duration) {
		n := strconv.Itoa(i)
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-" + n, Name: n + suffix}, Reason: "Failed", Message: suffix + " of " + n,
			InvolvedObject: corev1.ObjectReference{Kind: "Service", UID: types.UID(n)}, Source: corev1.EventSource{Component: component}, LastTimestamp: metav1.NewTime(now.Add(-age))}
		if _, err := client.CoreV1().Events(e.Namespace).Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range stuck {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-" + strconv.Itoa(i), Name: "web", UID: types.UID(strconv.Itoa(i))}}
		s.Spec.Type, s.CreationTimestamp = corev1.ServiceTypeLoadBalancer, metav1.NewTime(now.Add(-24*time.Hour))
		p.services = append(p.services, s)
		event(i, "new", serviceController, time.Minute)
		event(i, "old", serviceController, time.Hour)
		event(i, "other", "somebody", 0)
	}
	client.ClearActions()
	found, err := checkServices(t.Context(), p)
	if err != nil || len(found) != stuck || len(client.Actions()) != 1 {
		t.Fatalf("%d findings, %v, by %d requests", len(found), err, len(client.Actions()))
	}
	for i, f := range found {
		if !strings.HasSuffix(f.Message, ": Failed: new of "+strconv.Itoa(i)) {
			t.Errorf("%s: %s", f.Object, f.Message)
		}
	}
}
