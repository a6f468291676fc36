package ccm

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestEchoOfOurOwnAnnotations(t *testing.T) {
	vocabulary := []cloud.Annotation{{Name: "x/id", Written: true}, {Name: "x/timeout"}}
	spec := func(settings cloud.Settings, change func(*cloud.LoadBalancerSpec)) fingerprint {
		s := &cloud.LoadBalancerSpec{
			LoadBalancerRef: cloud.LoadBalancerRef{UID: "u", Settings: settings},
			Ports:           []cloud.LoadBalancerPort{{Port: 80}},
			Members:         []cloud.LoadBalancerMember{{Node: cloud.InstanceRef{NodeName: "a"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}},
			HealthCheck:     &cloud.HealthCheck{Port: 30000},
		}
		if change != nil {
			change(s)
		}
		return fingerprintOf(s, vocabulary)
	}
	service := func(annotations map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: annotations}}
	}
	now := time.Now()
	wrote := map[string]string{"x/id": "1"}
	before := spec(cloud.Settings{"x/timeout": "5"}, nil)
	after := cloud.Settings{"x/timeout": "5", "x/id": "1"}

	for _, test := range []struct {
		name    string
		service *corev1.Service
		spec    fingerprint
		later   time.Duration
		want    bool
	}{
		{"our own change", service(wrote), spec(after, nil), time.Second, true},
		{"the status came too", service(wrote), spec(after, func(s *cloud.LoadBalancerSpec) { s.CurrentIngress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}} }), time.Second, true},
		{"too late", service(wrote), spec(after, nil), time.Hour, false},
		{"somebody undid it", service(nil), spec(cloud.Settings{"x/timeout": "5"}, nil), time.Second, false},
		{"somebody changed it", service(map[string]string{"x/id": "2"}), spec(cloud.Settings{"x/timeout": "5", "x/id": "2"}, nil), time.Second, false},
		{"another annotation changed", service(wrote), spec(cloud.Settings{"x/timeout": "6", "x/id": "1"}, nil), time.Second, false},
		{"a port changed", service(wrote), spec(after, func(s *cloud.LoadBalancerSpec) { s.Ports[0].Port = 81 }), time.Second, false},
		{"a member changed", service(wrote), spec(after, func(s *cloud.LoadBalancerSpec) { s.Members = nil }), time.Second, false},
		{"the health check changed", service(wrote), spec(after, func(s *cloud.LoadBalancerSpec) { s.HealthCheck = &cloud.HealthCheck{Port: 30001} }), time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := completions{byUID: map[types.UID]completion{}}
			c.put("u", completion{spec: before, status: &corev1.LoadBalancerStatus{}, annotations: wrote, echoUntil: now.Add(echoWindow)})
			if got := c.echo(test.service, test.spec, now.Add(test.later)) != nil; got != test.want {
				t.Fatalf("taken for our own change: %t, want %t", got, test.want)
			}
			if test.want && c.echo(test.service, test.spec, now) != nil {
				t.Error("a second update is taken for our own change, too")
			}
		})
	}
}

func TestUpdateNeedsACompletedEnsure(t *testing.T) {
	c := completions{byUID: map[types.UID]completion{}}
	old, grown, other := fingerprint{"rest", "a"}, fingerprint{"rest", "a b"}, fingerprint{"other", "a b"}
	if c.sameButMembers("u", old) {
		t.Error("a load balancer that was never ensured counts as complete")
	}
	c.put("u", completion{spec: old})
	if !c.sameButMembers("u", grown) || c.sameButMembers("u", other) {
		t.Error("only members may differ")
	}
	c.members("u", grown)
	if c.byUID["u"].spec != grown {
		t.Error("the new members are not remembered")
	}
	c.forget("u")
	if c.sameButMembers("u", grown) {
		t.Error("a load balancer that is being deleted counts as complete")
	}
}
