package loadbalancers

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func spec(change ...func(*cloud.LoadBalancerSpec)) *cloud.LoadBalancerSpec {
	out := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "guest", UID: "uid-of-kube-system", ID: "uid-of-owner"}, Namespace: "default", Name: "web", UID: "s"},
		Ports: []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
	for _, c := range change {
		c(out)
	}
	return out
}

// The name is that of the existing manager: printf web.default | sha256sum | cut -c1-21
func TestName(t *testing.T) {
	if got, want := nameOf(spec().LoadBalancerRef), "guest-f8baa80a04b55ffc319a4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	long := spec(func(s *cloud.LoadBalancerSpec) { s.Cluster.Name = strings.Repeat("c", 41) })
	if got := nameOf(long.LoadBalancerRef); len(got) != 63 {
		t.Errorf("%s has %d bytes", got, len(got))
	}
}

func TestDesired(t *testing.T) {
	full := spec(func(s *cloud.LoadBalancerSpec) {
		s.Ports = append(s.Ports, cloud.LoadBalancerPort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053})
		s.LoadBalancerIP = netip.MustParseAddr("192.0.2.7")
		s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
		s.HealthCheck = &cloud.HealthCheck{Port: 32000, Path: "/healthz"}
		s.IPFamilies = append(s.IPFamilies, corev1.IPv6Protocol)
	})
	want := &vmService{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"run.tanzu.vmware.com/cluster.name": "guest", "run.tanzu.vmware.com/service.name": "web", "run.tanzu.vmware.com/service.namespace": "default",
			"isthmus-cloud.github.io/cluster-uid": "uid-of-kube-system"},
		Annotations: map[string]string{"virtualmachineservice.vmoperator.vmware.com/service.externalTrafficPolicy": "Local",
			"virtualmachineservice.vmoperator.vmware.com/service.healthCheckNodePort": "32000"}},
		Spec: vmServiceSpec{Type: "LoadBalancer", Selector: map[string]string{"capv.vmware.com/cluster.name": "guest", "capv.vmware.com/cluster.role": "node"},
			Ports:          []port{{"http", "TCP", 80, 30080}, {"dns", "UDP", 53, 30053}},
			LoadBalancerIP: "192.0.2.7", LoadBalancerSourceRanges: []string{"10.0.0.0/8", "192.0.2.0/24"}, IPFamilies: []string{"IPv4", "IPv6"}, IPFamilyPolicy: "PreferDualStack"}}
	got, err := desired(full, false, true)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = desired(full, true, false)
	if err != nil || got.Spec.Selector["capw.vmware.com/cluster.name"] != "guest" || got.Spec.Selector["capw.vmware.com/cluster.role"] != "node" || got.Spec.IPFamilies != nil || got.Spec.IPFamilyPolicy != "" {
		t.Errorf("legacy, of an older API: %+v, %v", got, err)
	}
	if _, err := desired(spec(func(s *cloud.LoadBalancerSpec) { s.Ports[0].NodePort = 0 }), false, true); cloud.KindOf(err) != cloud.KindInvalid {
		t.Errorf("without a node port: %v", err)
	}
}

// What means the same is no difference, and a difference names its field alone.
func TestFields(t *testing.T) {
	is := vmServiceSpec{Ports: []port{{"http", "TCP", 80, 30080}, {"dns", "UDP", 53, 30053}}, LoadBalancerIP: "2001:DB8::1", LoadBalancerSourceRanges: []string{"192.0.2.0/24", "10.1.2.3/8"},
		IPFamilies: []string{"IPv6", "IPv4"}, IPFamilyPolicy: "RequireDualStack"}
	want := vmServiceSpec{Ports: []port{is.Ports[1], is.Ports[0]}, LoadBalancerIP: "2001:db8::1", LoadBalancerSourceRanges: []string{"10.0.0.0/8", "192.0.2.0/24"},
		IPFamilies: is.IPFamilies, IPFamilyPolicy: "PreferDualStack"}
	for name, tt := range map[string]struct {
		change func(is, want *vmServiceSpec)
		fields []string
	}{
		"the same in other words": {func(_, _ *vmServiceSpec) {}, nil},
		"another node port":       {func(_, want *vmServiceSpec) { want.Ports[0].TargetPort++ }, []string{"ports"}},
		"another name of a port":  {func(_, want *vmServiceSpec) { want.Ports[0].Name = "x" }, []string{"ports"}},
		"no address":              {func(_, want *vmServiceSpec) { want.LoadBalancerIP = "" }, []string{"loadBalancerIP"}},
		"one range less":          {func(_, want *vmServiceSpec) { want.LoadBalancerSourceRanges = nil }, []string{"loadBalancerSourceRanges"}},
		"everyone, and no ranges": {func(is, want *vmServiceSpec) {
			is.LoadBalancerSourceRanges, want.LoadBalancerSourceRanges = []string{"0.0.0.0/0", "::/0"}, nil
		}, nil},
		"everyone of one family": {func(is, want *vmServiceSpec) {
			is.LoadBalancerSourceRanges, want.LoadBalancerSourceRanges = []string{"0.0.0.0/0"}, nil
		}, []string{"loadBalancerSourceRanges"}},
		"one family less": {func(_, want *vmServiceSpec) {
			want.IPFamilies, want.IPFamilyPolicy = want.IPFamilies[:1], "SingleStack"
		}, []string{"ipFamilies", "ipFamilyPolicy"}},
		"an API that knows no families": {func(is, want *vmServiceSpec) { is.IPFamilies, want.IPFamilies, want.IPFamilyPolicy = nil, nil, "" }, nil},
		"one family of a Service of two": {func(is, want *vmServiceSpec) {
			is.IPFamilies, is.IPFamilyPolicy, want.IPFamilies = is.IPFamilies[:1], "PreferDualStack", is.IPFamilies[:1]
		}, nil},
	} {
		i, w := is, want
		i.Ports, w.Ports = slices.Clone(is.Ports), slices.Clone(want.Ports)
		tt.change(&i, &w)
		if got := slices.Sorted(maps.Keys(fields(&i, &w))); !slices.Equal(got, tt.fields) {
			t.Errorf("%s: %q differ, want %q", name, got, tt.fields)
		}
	}
}

func TestCheck(t *testing.T) {
	older, newer := &LoadBalancers{}, &LoadBalancers{ipFamilies: true}
	v6 := func(s *cloud.LoadBalancerSpec) { s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }
	dual := func(s *cloud.LoadBalancerSpec) { s.IPFamilies = append(s.IPFamilies, corev1.IPv6Protocol) }
	affinity := func(s *cloud.LoadBalancerSpec) { s.SessionAffinityTimeout = 1 }
	for name, tt := range map[string]struct {
		b                  *LoadBalancers
		change             func(*cloud.LoadBalancerSpec)
		problems, warnings int
	}{
		"IPv6, older API": {older, v6, 1, 0}, "IPv6": {newer, v6, 0, 0}, "dual-stack, older API": {older, dual, 0, 1}, "dual-stack": {newer, dual, 0, 0}, "affinity": {newer, affinity, 0, 1},
	} {
		if problems, warnings := tt.b.Check(spec(tt.change)); len(problems) != tt.problems || len(warnings) != tt.warnings {
			t.Errorf("%s: %v, %q", name, problems, warnings)
		}
	}
}
