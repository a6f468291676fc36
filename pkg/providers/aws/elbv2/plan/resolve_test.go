package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

const uid = "9f8b7c6d-1234-4abc-9def-0123456789ab"

func service(namespace, name string, ports ...cloud.LoadBalancerPort) *cloud.LoadBalancerSpec {
	return &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{ID: "c", Name: "kubernetes", UID: "u"}, Namespace: namespace, Name: name, UID: uid,
			Settings: cloud.Settings{annotations.Type: "nlb"}},
		Ports: ports, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
}

func tcp(name string, port, nodePort int32) cloud.LoadBalancerPort {
	return cloud.LoadBalancerPort{Name: name, Protocol: corev1.ProtocolTCP, Port: port, NodePort: nodePort}
}

func conf(t *testing.T, text string) *config.Global {
	t.Helper()
	cfg, _, err := config.Parse("cloud.conf", []byte("[Global]\nKubernetesClusterID = c\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return &cfg.Global
}

// TestNames has names as the existing manager's formulas make them, computed apart from this code.
func TestNames(t *testing.T) {
	spec := service("kube-system", "my-web.app", tcp("", 80, 30080))
	local := service("default", "web", tcp("", 443, 30443))
	local.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
	local.Settings[annotations.Certificate], local.Settings[annotations.BackendProtocol] = "arn:1", "ssl"
	udp := service("default", "dns", cloud.LoadBalancerPort{Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053})
	for got, want := range map[string]string{
		Name(spec.LoadBalancerRef):                           "a9f8b7c6d12344abc9def0123456789a",
		GroupName(spec.LoadBalancerRef):                      "k8s-kubesyst-mywebapp-38ca18ce3b",
		Resolve(conf(t, ""), spec).Listeners[0].Wanted.Name:  "k8s-kubesyst-mywebapp-1ff5195e48",
		Resolve(conf(t, ""), local).Listeners[0].Wanted.Name: "k8s-default-web-7e4f6c7320",
		Resolve(conf(t, ""), udp).Listeners[0].Wanted.Name:   "k8s-default-dns-de13b450bd",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if !IsTargetGroupName("k8s-default-web-0123456789", local.LoadBalancerRef) || IsTargetGroupName("k8s-default-webs-0123456789", local.LoadBalancerRef) {
		t.Error("names of target groups are not recognized")
	}
}

func TestWish(t *testing.T) {
	spec := service("default", "web", tcp("https", 443, 30443), tcp("http", 80, 30080), tcp("none", 81, 0))
	spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for k, v := range map[string]string{
		annotations.Certificate: "arn:cert", annotations.SSLPorts: "https", annotations.SSLPolicy: "P", annotations.BackendProtocol: "ssl",
		annotations.CrossZone: "1", annotations.LogEnabled: "true", annotations.LogBucket: "b", annotations.Internal: "0.0.0.0/0",
		annotations.Tags: "team=web,kubernetes.io/service-name=x", annotations.CheckTimeout: "7", annotations.CheckHealthy: "4",
		annotations.TargetGroupAttributes: "proxy_protocol_v2.enabled=true", annotations.Subnets: "subnet-1, main", annotations.EIPAllocations: "e1,e2",
	} {
		spec.Settings[k] = v
	}
	check := HealthCheck{Protocol: "TCP", Port: "traffic-port", Interval: 30, Timeout: 7, Healthy: 4, Unhealthy: 3}
	attributes := map[string]string{proxyProtocol: "true"}
	want := &Wish{
		Name: Name(spec.LoadBalancerRef), Internal: true, Subnets: []string{"subnet-1", "main"}, Allocations: []string{"e1", "e2"},
		GroupTags:  map[string]string{"team": "web"},
		Tags:       map[string]string{"team": "web", annotations.ServiceTag: "default/web", "kubernetes.io/cluster/c": "owned"},
		Attributes: map[string]string{crossZone: "true", logEnabled: "true", logBucket: "b", logPrefix: ""},
		Clients:    []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Listeners: []Listener{
			{Port: 443, Protocol: TLS, Certificate: "arn:cert", Policy: "P", Wanted: &TargetGroup{Port: 30443, Protocol: TLS, Check: check, Attributes: attributes}},
			{Port: 80, Protocol: protocolTCP, Wanted: &TargetGroup{Port: 30080, Protocol: protocolTCP, Check: check, Attributes: attributes}},
		},
	}
	got := Resolve(conf(t, ""), spec)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Wish{}), cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreFields(TargetGroup{}, "Name")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := got.Refused(); err != nil || len(got.Warnings()) != 2 {
		t.Errorf("%v, %q", err, got.Warnings())
	}
}

// Whoever may make Services can have any port of all Nodes opened to the subnets, which is told.
func TestPortsOfOthersThatAreCheckedAreTold(t *testing.T) {
	for port, warned := range map[string]bool{"22": true, "30080": false, "traffic-port": false, "10256": false, "32000": false, "": false} {
		spec := service("default", "web", tcp("http", 80, 30080))
		spec.HealthCheck = &cloud.HealthCheck{Port: 32000, Path: "/healthz"}
		if port != "" {
			spec.Settings[annotations.CheckPort] = port
		}
		if got := Resolve(conf(t, ""), spec).Warnings(); (len(got) > 0) != warned {
			t.Errorf("%s: %q", port, got)
		}
		if got := Resolve(conf(t, "DisableSecurityGroupIngress = true"), spec).Warnings(); len(got) > 0 {
			t.Errorf("%s, where nothing is opened: %q", port, got)
		}
	}
}

func TestHealthChecks(t *testing.T) {
	const shared = "ClusterServiceLoadBalancerHealthProbeMode = Shared\n"
	local := &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
	for name, tt := range map[string]struct {
		conf  string
		local *cloud.HealthCheck
		set   cloud.Settings
		want  HealthCheck
	}{
		"by default":        {"", nil, nil, HealthCheck{"TCP", "traffic-port", "", 30, 0, 3, 3}},
		"policy Local":      {"", local, nil, HealthCheck{"HTTP", "31000", "/healthz", 10, 0, 2, 2}},
		"HTTP":              {"", nil, cloud.Settings{annotations.CheckProtocol: "http"}, HealthCheck{"HTTP", "traffic-port", "/", 30, 0, 3, 3}},
		"a path":            {"", nil, cloud.Settings{annotations.CheckProtocol: "HTTPS", annotations.CheckPath: "/x"}, HealthCheck{"HTTPS", "traffic-port", "/x", 30, 0, 3, 3}},
		"a timeout":         {"", nil, cloud.Settings{annotations.CheckTimeout: "30"}, HealthCheck{"TCP", "traffic-port", "", 30, 30, 3, 3}},
		"no timeout":        {"", nil, cloud.Settings{annotations.CheckTimeout: "1000"}, HealthCheck{"TCP", "traffic-port", "", 30, 0, 3, 3}},
		"longer than Local": {"", local, cloud.Settings{annotations.CheckTimeout: "11"}, HealthCheck{"HTTP", "31000", "/healthz", 10, 0, 2, 2}},
		"Local by TCP":      {"", local, cloud.Settings{annotations.CheckProtocol: "tcp"}, HealthCheck{"TCP", "31000", "", 10, 0, 2, 2}},
		"shared":            {shared, nil, cloud.Settings{annotations.CheckInterval: "10"}, HealthCheck{"HTTP", "10256", "/healthz", 10, 0, 3, 3}},
		"shared and port":   {shared, nil, cloud.Settings{annotations.CheckPort: "80"}, HealthCheck{"HTTP", "10256", "/healthz", 30, 0, 3, 3}},
		"shared and Local":  {shared, local, nil, HealthCheck{"HTTP", "31000", "/healthz", 10, 0, 2, 2}},
	} {
		spec := service("default", "web", tcp("", 80, 30080))
		spec.HealthCheck = tt.local
		for k, v := range tt.set {
			spec.Settings[k] = v
		}
		w := Resolve(conf(t, tt.conf), spec)
		if got := w.Listeners[0].Wanted.Check; got != tt.want || w.Refused() != nil {
			t.Errorf("%s: %+v, want %+v, %v", name, got, tt.want, w.Refused())
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for want, change := range map[string]func(*cloud.LoadBalancerSpec){
		"extra-security-groups":  func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.ExtraSecurityGroups] = "sg-1" },
		"spec.sessionAffinity":   func(s *cloud.LoadBalancerSpec) { s.SessionAffinityTimeout = 1 },
		"spec.loadBalancerIP":    func(s *cloud.LoadBalancerSpec) { s.LoadBalancerIP = netip.MustParseAddr("192.0.2.1") },
		"spec.ports: Forbidden":  func(s *cloud.LoadBalancerSpec) { s.Ports[0].Protocol = corev1.ProtocolUDP },
		"spec.ports[1].protocol": func(s *cloud.LoadBalancerSpec) { s.Ports[0].Protocol, s.Ports[1].Protocol = "SCTP", "SCTP" },
		"no range of IPv4": func(s *cloud.LoadBalancerSpec) {
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
		},
		"access logs need a bucket":      func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.LogEnabled] = "true" },
		"healthcheck-protocol":           func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.CheckProtocol] = "UDP" },
		"use a number between 5 and 300": func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.CheckInterval] = "4" },
		`"stickiness.enabled"`: func(s *cloud.LoadBalancerSpec) {
			s.Settings[annotations.TargetGroupAttributes] = "stickiness.enabled=true"
		},
		`"preserve_client_ip.enabled=on"`: func(s *cloud.LoadBalancerSpec) {
			s.Settings[annotations.TargetGroupAttributes] = "preserve_client_ip.enabled=on"
		},
		"UDP keeps the addresses": func(s *cloud.LoadBalancerSpec) {
			s.Ports[0].Protocol, s.Ports[1].Protocol = "UDP", "UDP"
			s.Settings[annotations.TargetGroupAttributes] = "preserve_client_ip.enabled=false"
		},
	} {
		spec := service("default", "web", tcp("a", 80, 30080), tcp("b", 81, 30081))
		change(spec)
		problems, _ := Check(spec, conf(t, ""))
		if err := Resolve(conf(t, ""), spec).Refused(); len(problems) == 0 || !strings.Contains(err.Error(), want) || cloud.KindOf(err) != cloud.KindInvalid {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestOwnGroupsAreNamedByIDs(t *testing.T) {
	spec := service("default", "web", tcp("", 80, 30080))
	spec.Settings[annotations.SecurityGroups] = "sg-1,0.0.0.0/0"
	problems, _ := Check(spec, conf(t, "NLBSecurityGroupMode = Managed\n"))
	if len(problems) != 1 || problems[0].Field != cloud.AnnotationPath(annotations.SecurityGroups).String() {
		t.Errorf("%v", problems)
	}
}

func TestWhatIsWarnedOf(t *testing.T) {
	for name, want := range map[string]string{
		annotations.IdleTimeout: "no effect on a network load balancer", annotations.SecurityGroups: "without [Global] NLBSecurityGroupMode",
		annotations.SSLPorts: "no effect without", annotations.ProxyProtocol: "no effect on a network load balancer",
		annotations.CheckTimeout: "not above the interval", annotations.BackendProtocol: "balance connections",
	} {
		spec := service("default", "web", tcp("", 80, 30080))
		spec.Settings[name] = "1" // of those that only others read any value will do
		if problems, warnings := Check(spec, conf(t, "")); len(problems) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], want) {
			t.Errorf("%s: %v, %q", name, problems, warnings)
		}
	}
}
