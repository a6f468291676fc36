package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

func wishesConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, _, err := config.Parse("cloud.conf", []byte("[Global]\nauth-url=http://127.0.0.1/v3\nusername=u\npassword=p\ntenant-name=t\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func wishesSpec(settings cloud.Settings, change func(*cloud.LoadBalancerSpec)) *cloud.LoadBalancerSpec {
	s := &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "c", UID: "u1"}, Namespace: "ns", Name: "s", Settings: settings},
		Ports: []cloud.LoadBalancerPort{
			{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}, {Protocol: corev1.ProtocolUDP, Port: 80, NodePort: 30081}},
		Members: []cloud.LoadBalancerMember{
			{Node: cloud.InstanceRef{NodeName: "b"}, Addresses: []netip.Addr{netip.MustParseAddr("fd00::2"), netip.MustParseAddr("10.0.0.2")}},
			{Node: cloud.InstanceRef{NodeName: "a"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
	if change != nil {
		change(s)
	}
	return s
}

func TestWantedTree(t *testing.T) {
	tests := []struct {
		name     string
		conf     string
		provider string
		settings cloud.Settings
		spec     func(*cloud.LoadBalancerSpec)
		// change is applied to the plain tree of two ports.
		change   func(tcp, udp *Listener)
		warnings int
	}{
		{name: "plain"},
		{name: "X-Forwarded-For", settings: cloud.Settings{AnnForwardedFor: "true"}, change: func(tcp, udp *Listener) {
			tcp.Protocol, tcp.ForwardedFor, tcp.Pool.Protocol = ProtoHTTP, true, ProtoHTTP
		}},
		{name: "TLS from cloud.conf", conf: "default-tls-container-ref=https://b/v1/containers/x\n", change: func(tcp, udp *Listener) {
			tcp.Protocol, tcp.TLSRef, tcp.Pool.Protocol = ProtoTLS, "https://b/v1/containers/x", ProtoHTTP
		}},
		{name: "PROXY v1", settings: cloud.Settings{AnnProxyProtocol: "true"}, change: func(tcp, udp *Listener) { tcp.Pool.Protocol = ProtoProxy }},
		{name: "PROXY v2", settings: cloud.Settings{AnnProxyProtocol: "v2"}, change: func(tcp, udp *Listener) { tcp.Pool.Protocol = ProtoProxyV2 }},
		{name: "numbers", settings: cloud.Settings{AnnConnectionLimit: "7", AnnTimeoutClient: "1", AnnTimeoutConnect: "2", AnnTimeoutMember: "3", AnnTimeoutInspect: "4"},
			change: func(tcp, udp *Listener) {
				for _, l := range []*Listener{tcp, udp} {
					l.Connections, l.Timeouts = 7, &Timeouts{Client: 1, Connect: 2, Member: 3, Inspect: 4}
				}
			}},
		{name: "monitors of cloud.conf, one value of the Service", conf: "create-monitor=true\nmonitor-delay=10s\nmonitor-max-retries=2\n", settings: cloud.Settings{AnnMonitorTimeout: "8"},
			change: func(tcp, udp *Listener) {
				tcp.Pool.Monitor = &Monitor{Name: "monitor_0_kube_service_c_ns_s", Type: MonitorTCP, Delay: 10, Timeout: 8, MaxRetries: 2, MaxRetriesDown: 3}
				udp.Pool.Monitor = &Monitor{Name: "monitor_1_kube_service_c_ns_s", Type: MonitorUDP, Delay: 10, Timeout: 8, MaxRetries: 2, MaxRetriesDown: 3}
			}},
		{name: "no monitors although cloud.conf has them", conf: "create-monitor=true\n", settings: cloud.Settings{AnnMonitor: "false"}},
		{name: "policy Local always has monitors (#2866)", settings: cloud.Settings{AnnMonitor: "false"}, warnings: 1,
			spec: func(s *cloud.LoadBalancerSpec) { s.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"} },
			change: func(tcp, udp *Listener) {
				for i, l := range []*Listener{tcp, udp} {
					l.Pool.Implied = true
					l.Pool.Monitor = &Monitor{Name: diffNames().monitor(i), Type: MonitorHTTP, Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3, Path: "/healthz", Method: "GET", Codes: "200"}
					for j := range l.Pool.Members {
						l.Pool.Members[j].MonitorPort = 31000
					}
				}
			}},
		{name: "policy Local on ovn", provider: "ovn", warnings: 1,
			spec: func(s *cloud.LoadBalancerSpec) { s.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"} },
			change: func(tcp, udp *Listener) {
				for i, l := range []*Listener{tcp, udp} {
					l.Timeouts, l.Everyone, l.Pool.Method = nil, nil, config.MethodSourceIPPort
					l.Pool.Implied = true
					l.Pool.Monitor = &Monitor{Name: diffNames().monitor(i), Type: MonitorTCP, Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3}
				}
				udp.Pool.Monitor.Type = MonitorUDP
			}},
		{name: "what has no effect on ovn", provider: "ovn", settings: cloud.Settings{AnnTimeoutClient: "1", AnnConnectionLimit: "3", AnnFlavorID: ""}, warnings: 3,
			change: func(tcp, udp *Listener) {
				for _, l := range []*Listener{tcp, udp} {
					l.Connections = 3
					l.Timeouts, l.Everyone, l.Pool.Method = nil, nil, config.MethodSourceIPPort
				}
			}},
		{name: "ranges are ignored by ovn", provider: "ovn", warnings: 1, spec: func(s *cloud.LoadBalancerSpec) {
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
		}, change: func(tcp, udp *Listener) {
			for _, l := range []*Listener{tcp, udp} {
				l.Timeouts, l.Everyone, l.Pool.Method = nil, nil, config.MethodSourceIPPort
			}
		}},
		{name: "numbers that are not sent", provider: "ovn", settings: cloud.Settings{AnnMonitorDelay: "0", AnnTimeoutClient: "-1"}, warnings: 1, change: func(tcp, udp *Listener) {
			for _, l := range []*Listener{tcp, udp} {
				l.Timeouts, l.Everyone, l.Pool.Method = nil, nil, config.MethodSourceIPPort
			}
		}},
		{name: "affinity and method", settings: cloud.Settings{AnnMethod: config.MethodLeastConnections}, spec: func(s *cloud.LoadBalancerSpec) { s.SessionAffinityTimeout = 1 },
			change: func(tcp, udp *Listener) {
				for _, l := range []*Listener{tcp, udp} {
					l.Pool.Method, l.Pool.ByClientIP = config.MethodLeastConnections, true
				}
			}},
		{name: "IPv6: the node without an address of that family is left out", warnings: 1,
			spec: func(s *cloud.LoadBalancerSpec) { s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
			change: func(tcp, udp *Listener) {
				tcp.Everyone, udp.Everyone = []string{"::/0"}, []string{"::/0"}
				tcp.Pool.Members = []Member{{Name: "b", Address: "fd00::2", Port: 30080}}
				udp.Pool.Members = []Member{{Name: "b", Address: "fd00::2", Port: 30081}}
			}},
		{name: "two families", spec: func(s *cloud.LoadBalancerSpec) {
			s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		}},
		{name: "source ranges of both families", spec: func(s *cloud.LoadBalancerSpec) {
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
		}, change: func(tcp, udp *Listener) {
			tcp.AllowedCIDRs, udp.AllowedCIDRs = []string{"10.0.0.0/8"}, []string{"10.0.0.0/8"}
			tcp.Everyone, udp.Everyone = nil, nil
		}},
		{name: "everyone of IPv4 does not open an IPv6 VIP", warnings: 1, spec: func(s *cloud.LoadBalancerSpec) {
			s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("2001:db8::/32")}
		}, change: func(tcp, udp *Listener) {
			tcp.AllowedCIDRs, udp.AllowedCIDRs = []string{"2001:db8::/32"}, []string{"2001:db8::/32"}
			tcp.Everyone, udp.Everyone = nil, nil
			tcp.Pool.Members = []Member{{Name: "b", Address: "fd00::2", Port: 30080}}
			udp.Pool.Members = []Member{{Name: "b", Address: "fd00::2", Port: 30081}}
		}},
		{name: "two nodes of one address", warnings: 1, spec: func(s *cloud.LoadBalancerSpec) {
			s.Members = append(s.Members, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: "z"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.settings == nil {
				tt.settings = cloud.Settings{}
			}
			svc, err := Resolve(wishesSpec(tt.settings, tt.spec), wishesConfig(t, "[LoadBalancer]\n"+tt.conf))
			if err != nil {
				t.Fatal(err)
			}
			d, err := svc.New(tt.provider, diffNames(), false, "")
			if err != nil {
				t.Fatal(err)
			}
			got, warnings := d.Tree, d.Warnings
			want := plainTree()
			if tt.change != nil {
				tt.change(want.Listeners[0], want.Listeners[1])
			}
			for _, l := range want.Listeners {
				if tt.provider == "ovn" { // whose listeners have no ranges
					l.Everyone = nil
				}
			}
			for _, p := range got.Pools {
				p.KeepMethod = "" // see TestMethodOfExistingPools
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			if len(warnings) != tt.warnings {
				t.Errorf("warnings %q, want %d", warnings, tt.warnings)
			}
		})
	}
}

func plainTree() *Tree {
	n, t := diffNames(), &Tree{}
	for i, proto := range []string{ProtoTCP, ProtoUDP} {
		p := &Pool{Name: n.pool(i), Protocol: proto, Method: config.MethodRoundRobin, Status: StateActive, Used: true, Members: []Member{
			{Name: "a", Address: "10.0.0.1", Port: 30080 + i}, {Name: "b", Address: "10.0.0.2", Port: 30080 + i}}}
		t.Pools = append(t.Pools, p)
		t.Listeners = append(t.Listeners, &Listener{Name: n.listener(i), Protocol: proto, Port: 80, Connections: -1,
			Timeouts: &Timeouts{Client: 50000, Connect: 5000, Member: 50000}, Everyone: []string{"0.0.0.0/0"}, Tags: []string{n.LB, n.OwnerTag}, Pool: p})
	}
	return t
}

// TestMethodOfExistingPools: what Octavia or its provider does not know changes no pool, and what
// somebody else made by the same wish stays.
func TestMethodOfExistingPools(t *testing.T) {
	for _, tt := range []struct{ name, conf, provider, annotation, have, want, made string }{
		{"changed", "", "amphora", config.MethodSourceIP, config.MethodRoundRobin, config.MethodSourceIP, config.MethodSourceIP},
		{"of cloud.conf", "lb-method=SOURCE_IP\n", "amphora", "", config.MethodRoundRobin, config.MethodSourceIP, config.MethodSourceIP},
		{"an empty annotation is none", "lb-method=SOURCE_IP\n", "amphora", "", config.MethodSourceIP, config.MethodSourceIP, config.MethodSourceIP},
		{"unknown", "lb-method=SOURCE_IP\n", "amphora", "FASTEST", config.MethodLeastConnections, config.MethodLeastConnections, config.MethodRoundRobin},
		{"unknown in cloud.conf", "lb-method=FASTEST\n", "amphora", "", config.MethodLeastConnections, config.MethodLeastConnections, config.MethodRoundRobin},
		{"made with another's SOURCE_IP_PORT", "", "amphora", config.MethodSourceIPPort, config.MethodSourceIPPort, config.MethodSourceIPPort, config.MethodRoundRobin},
		{"SOURCE_IP_PORT where it cannot be", "", "amphora", config.MethodSourceIPPort, config.MethodSourceIP, config.MethodRoundRobin, config.MethodRoundRobin},
		{"ovn", "", "ovn", config.MethodRoundRobin, config.MethodSourceIPPort, config.MethodSourceIPPort, config.MethodSourceIPPort},
	} {
		settings := cloud.Settings{}
		if tt.annotation != "" || tt.name == "an empty annotation is none" {
			settings[AnnMethod] = tt.annotation
		}
		svc, err := Resolve(wishesSpec(settings, func(s *cloud.LoadBalancerSpec) { s.CurrentIngress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}} }), wishesConfig(t, "[LoadBalancer]\n"+tt.conf))
		if err != nil {
			t.Fatal(err)
		}
		d, err := svc.New(tt.provider, diffNames(), false, "")
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		want := d.Tree
		have := want.Clone()
		for i, p := range have.Pools {
			have.Listeners[i].ID, p.ID, p.Method, p.KeepMethod = fmt.Sprint("l", i), fmt.Sprint("p", i), tt.have, ""
		}
		_, next, err := diffTree(have, want, ownership{names: diffNames(), owner: true})
		if err != nil || next.Pools[0].Method != tt.want {
			t.Errorf("%s: the pool gets %s, want %s (%v)", tt.name, next.Pools[0].Method, tt.want, err)
		}
		if want.Pools[0].Method != tt.made {
			t.Errorf("%s: a new pool gets %s, want %s", tt.name, want.Pools[0].Method, tt.made)
		}
	}
}

func TestRefusedWishes(t *testing.T) {
	tests := []struct {
		name     string
		provider string
		settings cloud.Settings
		spec     func(*cloud.LoadBalancerSpec)
		kind     cloud.Kind
		want     []string
	}{
		{name: "everything that ovn lacks", provider: "ovn", kind: cloud.KindUnsupported,
			settings: cloud.Settings{AnnTLSContainerRef: "x", AnnForwardedFor: "true", AnnMethod: config.MethodRoundRobin},
			want:     []string{AnnTLSContainerRef, AnnForwardedFor, `"ROUND_ROBIN": load balancer provider ovn knows SOURCE_IP_PORT only`}},
		{name: "PROXY protocol on ovn", provider: "ovn", kind: cloud.KindUnsupported, settings: cloud.Settings{AnnProxyProtocol: "v1"}, want: []string{AnnProxyProtocol}},
		{name: "contradictions", kind: cloud.KindInvalid, settings: cloud.Settings{AnnProxyProtocol: "v1", AnnForwardedFor: "true", AnnClass: "gold"},
			spec: func(s *cloud.LoadBalancerSpec) {
				s.LoadBalancerIP = netip.MustParseAddr("fd00::1")
				s.Ports = append(s.Ports, s.Ports[0])
			},
			want: []string{"contradicts the annotation " + AnnForwardedFor, `has no [LoadBalancerClass "gold"]; it has bronze, silver`, `spec.loadBalancerIP: Invalid value: "fd00::1": use an address of the Service's first family IPv4`, `spec.ports[2]: Invalid value: "80/TCP": spec.ports[0] is the same port`}},
		{name: "no cluster", kind: cloud.KindInvalid, spec: func(s *cloud.LoadBalancerSpec) { s.Cluster.UID = "" }, want: []string{"cluster's UID"}},
		{name: "two classes", kind: cloud.KindInvalid, settings: cloud.Settings{AnnClass: "silver"}, spec: func(s *cloud.LoadBalancerSpec) { s.Class = "bronze" },
			want: []string{`[` + AnnClass + `]: Invalid value: "silver": spec.loadBalancerClass picks the class "bronze": remove the annotation`}},
		{name: "source ranges of the other family only", kind: cloud.KindUnsupported, spec: func(s *cloud.LoadBalancerSpec) {
			s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		}, want: []string{"spec.loadBalancerSourceRanges", "family IPv6"}},
	}
	cfg := wishesConfig(t, "[LoadBalancerClass \"silver\"]\nsubnet-id=01234567-89ab-cdef-0123-456789abcdef\n[LoadBalancerClass \"bronze\"]\n")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.settings == nil {
				tt.settings = cloud.Settings{}
			}
			svc, err := Resolve(wishesSpec(tt.settings, tt.spec), cfg)
			if err == nil {
				_, err = svc.New(tt.provider, diffNames(), false, "")
			}
			if cloud.KindOf(err) != tt.kind {
				t.Fatalf("err = %v of %v, want %v", err, cloud.KindOf(err), tt.kind)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %q:\n%v", part, err)
				}
			}
		})
	}
}

// TestPrecedence: which of class, annotation and cloud.conf counts, field by field. Values are
// named by where they stand.
func TestPrecedence(t *testing.T) {
	const conf, section = "subnet-id=conf\nnetwork-id=conf-net\n", "[LoadBalancerClass \"c\"]\nsubnet-id=class\nnetwork-id=class-net\n"
	const unnamed = "[LoadBalancerClass]\nsubnet-id=unnamed\nnetwork-id=unnamed-net\n"
	stated := cloud.Settings{AnnSubnetID: "ann", AnnNetworkID: "ann-net"}
	with := func(settings ...cloud.Settings) cloud.Settings {
		out := cloud.Settings{}
		for _, s := range settings {
			maps.Copy(out, s)
		}
		return out
	}
	class, internal := cloud.Settings{AnnClass: "c"}, cloud.Settings{AnnInternal: "true"}
	type result struct{ Subnet, Network, Members, Likely, Later string }
	for _, tt := range []struct {
		name, conf string
		settings   cloud.Settings
		field      string // spec.loadBalancerClass
		want       result
	}{
		{name: "cloud.conf", conf: conf, want: result{"conf", "conf-net", "", "conf", "conf"}},
		{name: "empty annotations", conf: conf, settings: cloud.Settings{AnnSubnetID: "", AnnNetworkID: "", AnnMemberSubnetID: ""}, want: result{"conf", "conf-net", "", "conf", "conf"}},
		{name: "annotation", conf: conf, settings: stated, want: result{"ann", "ann-net", "", "conf", "conf"}},
		{name: "annotation alone", settings: stated, want: result{"ann", "ann-net", "", "ann", "ann"}},
		{name: "class, external", conf: conf + section, settings: with(class, stated), want: result{"class", "class-net", "", "conf", "conf"}},
		{name: "class of the field", conf: conf + section, settings: stated, field: "c", want: result{"class", "class-net", "", "conf", "conf"}},
		{name: "class, internal", conf: conf + section, settings: with(class, stated, internal), want: result{"ann", "ann-net", "", "conf", "conf"}},
		{name: "class before cloud.conf, internal", conf: conf + section, settings: with(class, internal), want: result{"class", "class-net", "", "conf", "conf"}},
		{name: "class and annotation without cloud.conf", conf: section, settings: with(class, stated), want: result{"class", "class-net", "", "ann", "class"}},
		{name: "class without subnet", conf: "[LoadBalancerClass \"c\"]\n", settings: with(class, stated), want: result{"ann", "ann-net", "", "ann", ""}},
		{name: "section without a name", conf: conf + unnamed, settings: stated, want: result{"unnamed", "unnamed-net", "", "conf", "conf"}},
		{name: "section without a name, internal, with a class", conf: unnamed + section, settings: with(class, internal), want: result{"unnamed", "unnamed-net", "", "class", "class"}},
		{name: "section without a name, external, with a class", conf: unnamed + section, settings: class, want: result{"class", "class-net", "", "class", "class"}},
		{name: "members of cloud.conf", conf: "member-subnet-id=conf\n" + section, settings: class, want: result{"class", "class-net", "conf", "class", "class"}},
		{name: "members of the class", conf: "member-subnet-id=conf\n[LoadBalancerClass \"c\"]\nmember-subnet-id=class\n", settings: class, want: result{"", "", "class", "", ""}},
		{name: "members of the annotation", conf: "[LoadBalancerClass \"c\"]\nmember-subnet-id=class\n", settings: with(class, cloud.Settings{AnnMemberSubnetID: "ann"}), want: result{"", "", "ann", "", ""}},
	} {
		svc, err := Resolve(wishesSpec(with(tt.settings), func(s *cloud.LoadBalancerSpec) { s.Class = tt.field }), wishesConfig(t, "[LoadBalancer]\n"+tt.conf))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, result{svc.VIP.SubnetID, svc.VIP.NetworkID, svc.MemberSubnet, svc.LikelySubnet, svc.likelySubnetLater}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestPrecedenceOfFloatingIPs: the three keys of a floating subnet count as a whole, and an empty
// network of the annotation means that it is looked for.
func TestPrecedenceOfFloatingIPs(t *testing.T) {
	const conf = "floating-network-id=conf\nfloating-subnet-id=conf-id\nfloating-subnet=conf-name\nfloating-subnet-tags=conf-tags\n"
	for _, tt := range []struct {
		name, conf string
		settings   cloud.Settings
		network    string
		want       floatingSubnet
	}{
		{"cloud.conf: the ID before the others", conf, nil, "conf", floatingSubnet{SubnetID: "conf-id"}},
		{"annotations as a whole", conf, cloud.Settings{AnnFloatingSubnet: "ann-name"}, "conf", floatingSubnet{SubnetName: "ann-name"}},
		{"annotations: name and tags", conf, cloud.Settings{AnnFloatingSubnet: "n", AnnFloatingSubnetTags: "t", AnnFloatingSubnetID: ""}, "conf", floatingSubnet{SubnetName: "n", SubnetTags: "t"}},
		{"empty annotations are none", conf, cloud.Settings{AnnFloatingSubnet: "", AnnFloatingSubnetID: ""}, "conf", floatingSubnet{SubnetID: "conf-id"}},
		{"an empty network is looked for", conf, cloud.Settings{AnnFloatingNetworkID: ""}, "", floatingSubnet{SubnetID: "conf-id"}},
		{"class as a whole", conf + "[LoadBalancerClass \"c\"]\nfloating-network-id=class\nfloating-subnet-tags=class-tags\n",
			cloud.Settings{AnnClass: "c", AnnFloatingNetworkID: "ann", AnnFloatingSubnetID: "ann-id"}, "class", floatingSubnet{SubnetTags: "class-tags"}},
		{"class without any", conf + "[LoadBalancerClass \"c\"]\n", cloud.Settings{AnnClass: "c", AnnFloatingNetworkID: "ann", AnnFloatingSubnetTags: "t"}, "ann", floatingSubnet{SubnetTags: "t"}},
	} {
		svc, err := Resolve(wishesSpec(tt.settings, nil), wishesConfig(t, "[LoadBalancer]\n"+tt.conf))
		if err != nil || svc.FloatingIP.NetworkID != tt.network || svc.FloatingIP.floatingSubnet != tt.want {
			t.Errorf("%s: network %q, %+v, %v; want %q, %+v", tt.name, svc.FloatingIP.NetworkID, svc.FloatingIP.floatingSubnet, err, tt.network, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	n := NamesOf(cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "kubernetes", UID: "u"}, Namespace: "default", Name: "web"})
	got := []string{n.LB, n.OwnerTag, n.Description, n.FIPDescription, n.listener(0), n.pool(1), n.monitor(2)}
	if diff := cmp.Diff([]string{
		"kube_service_kubernetes_default_web", "isthmus-cluster=u",
		"Kubernetes external service default/web from cluster kubernetes", "Floating IP for Kubernetes external service default/web from cluster kubernetes",
		"listener_0_kube_service_kubernetes_default_web", "pool_1_kube_service_kubernetes_default_web", "monitor_2_kube_service_kubernetes_default_web",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	long := NamesOf(cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: strings.Repeat("c", 300)}})
	if len(long.LB) != 255 || len(long.pool(0)) != 255 || !long.isPool(long.pool(0)) {
		t.Errorf("names of %d and %d characters, want 255", len(long.LB), len(long.pool(0)))
	}
	for name, want := range map[string]bool{n.pool(0): true, n.pool(12): true, "pool_00_" + n.LB: false, "pool_x_" + n.LB: false, "pool_0_" + n.LB + "2": false, "": false, "pool_": false} {
		if n.isPool(name) != want {
			t.Errorf("isPool(%q) = %v, want %v", name, !want, want)
		}
	}
}

func TestAnnotationTable(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range Annotations(&config.LoadBalancer{}) {
		if seen[a.Name] {
			t.Errorf("%s stands there twice", a.Name)
		}
		seen[a.Name] = true
		if a.Doc == "" || a.Type == "" || !strings.HasSuffix(a.Doc, ".") {
			t.Errorf("%s: incomplete: %+v", a.Name, a)
		}
	}
	// What existing clusters use (facts), by name.
	for _, name := range strings.Fields(`floating-network-id floating-subnet floating-subnet-id floating-subnet-tags class subnet-id member-subnet-id
		network-id port-id keep-floatingip connection-limit timeout-client-data timeout-member-connect timeout-member-data timeout-tcp-inspect
		x-forwarded-for default-tls-container-ref lb-method proxy-protocol node-selector enable-health-monitor health-monitor-delay
		health-monitor-timeout health-monitor-max-retries health-monitor-max-retries-down flavor-id availability-zone load-balancer-id
		load-balancer-address hostname`) {
		if !seen["loadbalancer.openstack.org/"+name] {
			t.Errorf("annotation %s is missing", name)
		}
	}
	for _, name := range []string{"service.beta.kubernetes.io/openstack-internal-load-balancer", "service.beta.kubernetes.io/load-balancer-source-ranges"} {
		if !seen[name] {
			t.Errorf("annotation %s is missing", name)
		}
	}
}
