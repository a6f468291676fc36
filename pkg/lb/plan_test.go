package lb

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

var testCluster = cloud.Cluster{Name: "c", UID: "uid-1"}

var testTraits = cloud.LoadBalancerTraits{Reach: cloud.ByAnyIP, NodePorts: true}

func testProvider() *cloud.Provider {
	return &cloud.Provider{Annotations: testVocabulary(), LoadBalancing: testTraits}
}

func testVocabulary() []cloud.Annotation {
	return []cloud.Annotation{
		{Name: "lb.example.org/flavor-id", Type: cloud.TypeUUID, RefuseNew: true},
		{Name: "lb.example.org/connection-limit", Type: cloud.TypeInt, Min: -1, Max: 100},
		{Name: "lb.example.org/keep", Type: cloud.TypeBool},
		{Name: "lb.example.org/method", Type: cloud.TypeEnum, Enum: []string{"A", "B"}},
		{Name: "lb.example.org/proxy", Type: cloud.TypeEnum, Enum: []string{"v1", "v2"}, Ignorable: true},
		{Name: "lb.example.org/node-selector", Type: cloud.TypeSelector, Default: "pool=web"},
		{Name: "lb.example.org/address", Type: cloud.TypeIP, Written: true, NotRead: true},
		{Name: "lb.example.org/subnet", Type: cloud.TypeString},
		{Name: "lb.example.org/hostname", Type: cloud.TypeHostname},
		{Name: corev1.AnnotationLoadBalancerSourceRangesKey, Type: cloud.TypeCIDRs},
	}
}

func testService(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "svc-uid", Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeLoadBalancer,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053},
			},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

func testNode(name string, labels map[string]string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: "x:///" + name}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	if len(addresses) > 0 {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.9"})
	}
	return n
}

func testNodes() []*corev1.Node {
	web := map[string]string{"pool": "web"}
	return []*corev1.Node{
		testNode("n2", web, "10.0.0.2", "fd00::2", "10.0.0.2"),
		testNode("n1", web, "10.0.0.1"),
		testNode("db", map[string]string{"pool": "db"}, "10.0.0.3"),
		testNode("bare", web),
	}
}

// testCandidates are those of testNodes that have addresses, in the order of their names.
func testCandidates() []cloud.LoadBalancerMember {
	var out []cloud.LoadBalancerMember
	for name, addresses := range map[string][]string{"db": {"10.0.0.3"}, "n1": {"10.0.0.1"}, "n2": {"10.0.0.2", "fd00::2"}} {
		m := cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: name, ProviderID: "x:///" + name}}
		for _, a := range addresses {
			m.Addresses = append(m.Addresses, netip.MustParseAddr(a))
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b cloud.LoadBalancerMember) int { return strings.Compare(a.Node.NodeName, b.Node.NodeName) })
	return out
}

func basicSpec(change func(*cloud.LoadBalancerSpec)) *cloud.LoadBalancerSpec {
	spec := &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: testCluster, Namespace: "ns", Name: "web", UID: "svc-uid", Settings: cloud.Settings{}},
		Ports: []cloud.LoadBalancerPort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
			{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053},
		},
		Members:    testCandidates()[1:],
		Candidates: testCandidates(),
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	if change != nil {
		change(spec)
	}
	return spec
}

func TestPlan(t *testing.T) {
	seconds := int32(60)
	const addressless = "nodes without an InternalIP or ExternalIP get no traffic: bare"
	tests := []struct {
		name     string
		service  func(*corev1.Service)
		want     func(*cloud.LoadBalancerSpec)
		warnings []string
	}{
		{name: "basic", warnings: []string{addressless}},
		{
			name: "settings",
			service: func(s *corev1.Service) {
				s.Annotations["lb.example.org/connection-limit"] = "7"
				s.Annotations["lb.example.org/subnet"] = " a "
				s.Annotations["lb.example.org/address"] = "written by us"
				s.Annotations["lb.example.org/connection-limits"] = "8"
				s.Annotations["other.example.org/x"] = "1"
			},
			want: func(spec *cloud.LoadBalancerSpec) {
				spec.Settings = cloud.Settings{"lb.example.org/connection-limit": "7", "lb.example.org/subnet": "a"}
			},
			warnings: []string{
				"annotation lb.example.org/connection-limits is not known and has no effect; did you mean lb.example.org/connection-limit?",
				addressless,
			},
		},
		{
			name: "everything",
			service: func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
				s.Spec.LoadBalancerIP = "203.0.113.1"
				s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.1/24", " 10.0.0.0/8", "192.0.2.0/24"}
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				s.Spec.HealthCheckNodePort = 31000
				s.Spec.Ports[0].Protocol = ""
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
			},
			want: func(spec *cloud.LoadBalancerSpec) {
				spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
				spec.LoadBalancerIP = netip.MustParseAddr("203.0.113.1")
				spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
				spec.SessionAffinityTimeout = time.Minute
				spec.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
				spec.CurrentIngress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
			},
			warnings: []string{addressless},
		},
		{
			name: "source ranges of the annotation, default affinity timeout",
			service: func(s *corev1.Service) {
				s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] = "10.0.0.0/8, 192.0.2.0/24"
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			},
			want: func(spec *cloud.LoadBalancerSpec) {
				spec.Settings = cloud.Settings{corev1.AnnotationLoadBalancerSourceRangesKey: "10.0.0.0/8, 192.0.2.0/24"}
				spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
				spec.SessionAffinityTimeout = 3 * time.Hour
			},
			warnings: []string{addressless},
		},
		{
			name:     "source ranges of everyone are none",
			service:  func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "0.0.0.0/0"} },
			warnings: []string{addressless},
		},
		{
			name: "everyone of one family only",
			service: func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
				s.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0"}
			},
			want: func(spec *cloud.LoadBalancerSpec) {
				spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
				spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
			},
			warnings: []string{addressless},
		},
		{
			name:    "a selector that selects nothing",
			service: func(s *corev1.Service) { s.Annotations["lb.example.org/node-selector"] = "pool=none" },
			want: func(spec *cloud.LoadBalancerSpec) {
				spec.Settings = cloud.Settings{"lb.example.org/node-selector": "pool=none"}
				spec.Members = nil
			},
			warnings: []string{`the node selector "pool=none" matches none of 4 nodes: the load balancer has no members`},
		},
		{
			name: "a full label selector, families of the cluster IPs",
			service: func(s *corev1.Service) {
				s.Annotations["lb.example.org/node-selector"] = "pool in (web,db),!gpu"
				s.Spec.IPFamilies = nil
				s.Spec.ClusterIPs = []string{"fd00::1"}
			},
			want: func(spec *cloud.LoadBalancerSpec) {
				spec.Settings = cloud.Settings{"lb.example.org/node-selector": "pool in (web,db),!gpu"}
				spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
				spec.Members = spec.Candidates
			},
			warnings: []string{addressless},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			service := testService(tt.service)
			before := service.DeepCopy()
			got, warnings, err := Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(basicSpec(tt.want), got, cmpAddrs()...); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, service); diff != "" {
				t.Errorf("Plan changed the Service:\n%s", diff)
			}
		})
	}
}

func cmpAddrs() []cmp.Option {
	return []cmp.Option{
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
}

func TestPlanNamesEveryProblem(t *testing.T) {
	service := testService(func(s *corev1.Service) {
		s.Annotations["lb.example.org/flavor-id"] = "m1"
		s.Annotations["lb.example.org/method"] = "C"
		s.Annotations["lb.example.org/node-selector"] = "a in"
		s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] = "10.0.0.0"
		s.Spec.Ports[1].Protocol = "ICMP"
		s.Spec.LoadBalancerIP = "here"
		s.Spec.SessionAffinity = "Cookie"
	})
	spec, _, err := Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
	if !spec.Frozen || cloud.KindOf(err) != cloud.KindInvalid {
		t.Fatalf("Plan = %v, %v; want an error of KindInvalid", spec, err)
	}
	want := []string{
		"ns/web",
		`metadata.annotations[lb.example.org/flavor-id]: Invalid value: "m1": use an ID of the form`,
		`metadata.annotations[lb.example.org/method]: Unsupported value: "C": supported values: "A", "B"`,
		`metadata.annotations[lb.example.org/node-selector]: Invalid value: "a in": use a list of labels`,
		`metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "10.0.0.0": use a comma-separated list of CIDRs`,
		`spec.ports[1].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"`,
		`spec.loadBalancerIP: Invalid value: "here": use an IP address`,
		`spec.sessionAffinity: Unsupported value: "Cookie": supported values: "None", "ClientIP"`,
	}
	for _, w := range want {
		if strings.Count(err.Error(), w) != 1 {
			t.Errorf("the error names %q %d times:\n%v", w, strings.Count(err.Error(), w), err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != len(want)-1 {
		t.Errorf("%d problems, want %d:\n%v", n, len(want)-1, err)
	}

	after := hint(service, "gold", testCluster, testProvider())
	if diff := cmp.Diff(cloud.LoadBalancerRef{Cluster: testCluster, Namespace: "ns", Name: "web", UID: "svc-uid", Settings: cloud.Settings{}}, after.LoadBalancerRef, cmpAddrs()...); diff != "" {
		t.Errorf("the hint of the broken Service (-want +got):\n%s", diff)
	}
	if after.Class != "gold" || after.Frozen || len(after.Members) > 0 {
		t.Errorf("the hint of the broken Service is %+v", after)
	}
}

// TestPlanWithoutHostname: a host name that the API server would not take in the status is new
// Services' problem only; those that were served before keep their load balancers up to date.
func TestPlanWithoutHostname(t *testing.T) {
	for _, name := range []string{"10.0.0.1", "Web.example.org", "web.example.org."} {
		service := testService(func(s *corev1.Service) { s.Annotations["lb.example.org/hostname"] = name })
		spec, warnings, err := Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
		if err != nil || spec.Settings.Has("lb.example.org/hostname") || len(spec.Members) == 0 {
			t.Errorf("%s: Plan = %+v, %v", name, spec, err)
		}
		if !slices.ContainsFunc(warnings, func(w string) bool {
			return strings.Contains(w, "hostname]: Invalid value: \""+name+"\": use a DNS name in lower case") && strings.HasSuffix(w, "the address is published in its place")
		}) {
			t.Errorf("%s: warnings %q", name, warnings)
		}
		if problems, _ := Review(service, "", &cloud.Provider{Annotations: testVocabulary()}); len(problems) != 1 {
			t.Errorf("%s: Review finds %v", name, problems)
		}
	}
}

func TestPlanWithoutPorts(t *testing.T) {
	_, _, err := Plan(testService(func(s *corev1.Service) { s.Spec.Ports = nil }), nil, testCluster, &cloud.Provider{LoadBalancing: testTraits})
	if err == nil || !strings.Contains(err.Error(), "spec.ports: Required value") {
		t.Errorf("err = %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, a := range testVocabulary() {
		f.Add(a.Name, "1")
	}
	f.Add("lb.example.org/unknown", "10.0.0.0/8,::/0")
	f.Fuzz(func(t *testing.T, name, value string) {
		vocabulary := testVocabulary()
		settings, problems, _ := Check(map[string]string{name: value}, vocabulary)
		if len(settings) > 0 && len(problems) > 0 {
			t.Errorf("%q=%q is both valid and not", name, value)
		}
		service := testService(func(s *corev1.Service) { s.Annotations[name] = value })
		if spec, _, err := Plan(service, nil, testCluster, &cloud.Provider{Annotations: vocabulary, LoadBalancing: testTraits}); err == nil && spec == nil || spec != nil && (err != nil) != spec.Frozen {
			t.Errorf("Plan = %v, %v", spec, err)
		}
	})
}

// TestMembersByExternalIP: a Node without an InternalIP of a family is reached by its ExternalIP
// of that family.
func TestMembersByExternalIP(t *testing.T) {
	internal, external := corev1.NodeInternalIP, corev1.NodeExternalIP
	addr := netip.MustParseAddr
	for _, tt := range []struct {
		name  string
		addrs []corev1.NodeAddress
		want  []netip.Addr
	}{
		{"only an ExternalIP", []corev1.NodeAddress{{Type: external, Address: "203.0.113.1"}, {Type: external, Address: "203.0.113.2"}}, []netip.Addr{addr("203.0.113.1"), addr("203.0.113.2")}},
		{"InternalIP of the family wins", []corev1.NodeAddress{{Type: external, Address: "203.0.113.1"}, {Type: internal, Address: "10.0.0.1"}}, []netip.Addr{addr("10.0.0.1")}},
		{"per family", []corev1.NodeAddress{{Type: internal, Address: "10.0.0.1"}, {Type: external, Address: "203.0.113.1"}, {Type: external, Address: "2001:db8::1"}},
			[]netip.Addr{addr("10.0.0.1"), addr("2001:db8::1")}},
		{"neither", []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "10.0.0.1"}, {Type: external, Address: "nonsense"}}, nil},
	} {
		node := &corev1.Node{Status: corev1.NodeStatus{Addresses: tt.addrs}}
		if got := MemberAddresses(node, cloud.ByAnyIP); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	node := testNode("n", nil)
	node.Status.Addresses = []corev1.NodeAddress{{Type: external, Address: "203.0.113.1"}}
	spec, warnings, err := Plan(testService(nil), NewNodes([]*corev1.Node{node}, &testTraits), testCluster, &cloud.Provider{LoadBalancing: testTraits})
	if err != nil || len(warnings) > 0 || len(spec.Members) != 1 || spec.Members[0].Addresses[0] != addr("203.0.113.1") {
		t.Errorf("members of a Node with only an ExternalIP: %+v, %q, %v", spec, warnings, err)
	}
}

// TestPlanTakesWhatIsNoWordForDefault: existing controllers know true, false and plain numbers
// only, so nothing else may have an effect, nor stop the Service.
func TestPlanTakesWhatIsNoWordForDefault(t *testing.T) {
	for name, values := range map[string][]string{
		"lb.example.org/keep":             {"True", "TRUE", "1", "yes", "t", "", " true"},
		"lb.example.org/connection-limit": {"many", "50s", "", " 7", "7 ", "1_0", "0x7", "7.0", "99999999999999999999", "101", "-2"},
		"lb.example.org/proxy":            {"True", "v3", "", "on"},
	} {
		for _, value := range values {
			service := testService(func(s *corev1.Service) { s.Annotations[name] = value })
			spec, warnings, err := Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
			if err != nil || spec.Settings.Has(name) || len(spec.Members) == 0 {
				t.Errorf("%s=%q: %+v, %v", name, value, spec, err)
			}
			if !slices.ContainsFunc(warnings, func(w string) bool {
				return strings.Contains(w, name) && strings.HasSuffix(w, "until then it is as if it were not set")
			}) {
				t.Errorf("%s=%q: warnings %q", name, value, warnings)
			}
			if problems, warnings := Review(service, "", &cloud.Provider{Annotations: testVocabulary()}); len(problems) > 0 || len(warnings) == 0 {
				t.Errorf("%s=%q: the webhook says %v, %q", name, value, problems, warnings)
			}
		}
	}
	if s, _, _ := Check(map[string]string{"lb.example.org/keep": "true", "lb.example.org/connection-limit": "+7"}, testVocabulary()); !s.Bool("lb.example.org/keep", false) || s.Int("lb.example.org/connection-limit", 0) != 7 {
		t.Errorf("valid values: %v", s)
	}
}

// TestPlanOfServedServiceWithWrongCreationValue: what only a new load balancer could follow stops
// no Service that is served, but nothing is made otherwise than it says.
func TestPlanOfServedServiceWithWrongCreationValue(t *testing.T) {
	service := testService(func(s *corev1.Service) {
		s.Annotations["lb.example.org/flavor-id"] = "m1"
		s.Spec.LoadBalancerIP = "here"
	})
	if _, _, err := Plan(service, nil, testCluster, testProvider()); err == nil || !strings.Contains(err.Error(), "flavor-id") || !strings.Contains(err.Error(), "loadBalancerIP") {
		t.Errorf("never served: %v", err)
	}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
	spec, warnings, err := Plan(service, nil, testCluster, testProvider())
	if err != nil || spec.Settings["lb.example.org/flavor-id"] != "m1" || spec.LoadBalancerIP.IsValid() {
		t.Fatalf("served: %+v, %v", spec, err)
	}
	for _, want := range []string{"flavor-id", "loadBalancerIP"} {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, want) && strings.HasSuffix(w, asItIs) }) {
			t.Errorf("no warning about %s: %q", want, warnings)
		}
	}
}

// TestPlanWithoutPortsOnNodes: ports without a node port, and policy Local without the port of its
// check, are served as far as that is possible.
func TestPlanWithoutPortsOnNodes(t *testing.T) {
	service := testService(func(s *corev1.Service) {
		s.Spec.Ports[0].NodePort = 0
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	spec, warnings, err := Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
	if err != nil || len(spec.Ports) != 2 || spec.Ports[0].NodePort != 0 || spec.HealthCheck != nil || len(spec.Members) == 0 {
		t.Fatalf("%+v, %v", spec, err)
	}
	for _, want := range []string{"spec.ports[0].nodePort", "spec.healthCheckNodePort"} {
		if !slices.ContainsFunc(warnings, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("no warning about %s: %q", want, warnings)
		}
	}
}

// TestPlanWithWrongDefaultSelector: a selector of the configuration that is wrong selects nothing
// by itself; Services that state their own are served.
func TestPlanWithWrongDefaultSelector(t *testing.T) {
	vocabulary := []cloud.Annotation{{Name: "lb.example.org/node-selector", Type: cloud.TypeSelector, Default: "a in b"}}
	_, _, err := Plan(testService(nil), NewNodes(testNodes(), &testTraits), testCluster, &cloud.Provider{Annotations: vocabulary, LoadBalancing: testTraits})
	if err == nil || !strings.Contains(err.Error(), "default of the cloud's configuration") {
		t.Errorf("err = %v", err)
	}
	spec, _, err := Plan(testService(func(s *corev1.Service) { s.Annotations["lb.example.org/node-selector"] = "" }), NewNodes(testNodes(), &testTraits), testCluster, &cloud.Provider{Annotations: vocabulary, LoadBalancing: testTraits})
	if err != nil || len(spec.Members) != 3 {
		t.Errorf("%+v, %v", spec, err)
	}
}

func TestSourceRangesSeparatedByBlanks(t *testing.T) {
	service := testService(func(s *corev1.Service) {
		s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] = "10.0.0.0/8 192.0.2.7/24,\t198.51.100.0/24"
	})
	spec, _, err := Plan(service, nil, testCluster, testProvider())
	if err != nil || len(spec.SourceRanges) != 3 {
		t.Errorf("%+v, %v", spec, err)
	}
}

// TestPlanIsFrozenWhenWishIsInvalid: the members are known all the same or, where the selector is
// what is wrong, those that could be some.
func TestPlanIsFrozenWhenWishIsInvalid(t *testing.T) {
	service := testService(func(s *corev1.Service) { s.Annotations["lb.example.org/method"] = "C" })
	spec, _, err := Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
	if err == nil || !spec.Frozen || len(spec.Members) != 2 || len(spec.Ports) != 2 {
		t.Errorf("%+v, %v", spec, err)
	}
	service.Annotations["lb.example.org/node-selector"] = "a in"
	spec, _, err = Plan(service, NewNodes(testNodes(), &testTraits), testCluster, testProvider())
	if err == nil || spec == nil || !spec.Frozen || len(spec.Members) > 0 || len(spec.Candidates) != 3 {
		t.Errorf("with a wrong selector: %+v, %v", spec, err)
	}
}

func TestSelectionsAreBoundedWhenTheNodesDoNotChange(t *testing.T) {
	n := NewNodes(testNodes(), &testTraits)
	for i := range 10_000 {
		selector, err := labels.Parse(fmt.Sprintf("pool!=p%d", i))
		if err != nil {
			t.Fatal(err)
		}
		n.Select(selector)
	}
	if got := len(n.selections); got == 0 || got > maxSelections {
		t.Errorf("%d selections are remembered", got)
	}
}
