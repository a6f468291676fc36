package plan

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
)

func conf(t *testing.T, text string) *config.Global {
	t.Helper()
	cfg, _, err := config.Parse("c", []byte("[Global]\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return &cfg.Global
}

func service(pairs ...string) *cloud.LoadBalancerSpec {
	s := &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Namespace: "default", Name: "web", UID: "0a1b2c3d-0000-4000-8000-00000000000f", Settings: cloud.Settings{}}}
	for i := 0; i < len(pairs); i += 2 {
		s.Settings[pairs[i]] = pairs[i+1]
	}
	s.Ports = []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}, {Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443}}
	return s
}

func TestNames(t *testing.T) {
	ref := service().LoadBalancerRef
	if got := Name(ref); got != "a0a1b2c3d000040008000000000000000"[:32] {
		t.Error(got)
	}
	if got := GroupName(ref); got != "k8s-elb-"+Name(ref) {
		t.Error(got)
	}
	if got := GroupDescription(ref); got != "Security group for Kubernetes ELB "+Name(ref)+" (default/web)" {
		t.Error(got)
	}
}

func TestListeners(t *testing.T) {
	const arn = "arn:aws:acm:eu-central-1:111122223333:certificate/x"
	show := func(s *cloud.LoadBalancerSpec) string {
		d, err := Resolve(s, conf(t, ""))
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, l := range d.Listeners {
			certificate := ""
			if l.Certificate != "" {
				certificate = "+"
			}
			out = append(out, l.Protocol+certificate+">"+l.InstanceProtocol)
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		backend, certificate, ports, want string
	}{
		{"", "", "", "TCP>TCP TCP>TCP"},
		{"http", "", "", "HTTP>HTTP HTTP>HTTP"},
		{"https", "", "", "TCP>TCP TCP>TCP"},
		{"", arn, "", "SSL+>TCP SSL+>TCP"},
		{"tcp", arn, "*", "SSL+>TCP SSL+>TCP"},
		{"ssl", arn, "443", "TCP>TCP SSL+>SSL"},
		{"http", arn, "https", "HTTP>HTTP HTTPS+>HTTP"},
		{"https", arn, "https", "TCP>TCP HTTPS+>HTTPS"},
		{"", arn, "443, 80", "TCP>TCP SSL+>TCP"}, // a blank is part of the name
	} {
		if got := show(service(annotations.BackendProtocol, tt.backend, annotations.Certificate, tt.certificate, annotations.SSLPorts, tt.ports)); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	s := service()
	s.Ports[0].NodePort = 0
	if got := show(s); got != "TCP>TCP" {
		t.Errorf("a port that nobody serves: %s", got)
	}
}

func TestHealthChecks(t *testing.T) {
	local := &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
	const shared = "ClusterServiceLoadBalancerHealthProbeMode = Shared\n"
	for _, tt := range []struct {
		conf  string
		local *cloud.HealthCheck
		pairs []string
		want  HealthCheck
	}{
		{"", nil, nil, HealthCheck{"TCP:30080", 10, 5, 2, 6}},
		{"", nil, []string{annotations.BackendProtocol, "https"}, HealthCheck{"SSL:30080", 10, 5, 2, 6}},
		{"", nil, []string{annotations.CheckProtocol, "http", annotations.CheckPort, "traffic-port"}, HealthCheck{"http:30080/", 10, 5, 2, 6}},
		{"", nil, []string{annotations.CheckProtocol, "HTTPS", annotations.CheckPath, "/a", annotations.CheckPort, "8443"}, HealthCheck{"HTTPS:8443/a", 10, 5, 2, 6}},
		{"", nil, []string{annotations.CheckPath, "/a"}, HealthCheck{"TCP:30080", 10, 5, 2, 6}},
		{"", local, nil, HealthCheck{"HTTP:31000/healthz", 10, 5, 2, 6}},
		{"", local, []string{annotations.CheckPort, "traffic-port"}, HealthCheck{"HTTP:30080/healthz", 10, 5, 2, 6}},
		{"", local, []string{annotations.CheckProtocol, "TCP"}, HealthCheck{"TCP:31000", 10, 5, 2, 6}},
		{shared, local, nil, HealthCheck{"HTTP:31000/healthz", 10, 5, 2, 6}},
		{shared, nil, nil, HealthCheck{"HTTP:10256/healthz", 10, 5, 2, 6}},
		{shared, nil, []string{annotations.CheckPath, "/x", annotations.CheckPort, "1"}, HealthCheck{"HTTP:1/x", 10, 5, 2, 6}},
		{"", nil, []string{annotations.CheckInterval, "20", annotations.CheckTimeout, "3", annotations.CheckHealthy, "4", annotations.CheckUnhealthy, "5"}, HealthCheck{"TCP:30080", 20, 3, 4, 5}},
	} {
		s := service(tt.pairs...)
		s.HealthCheck = tt.local
		d, err := Resolve(s, conf(t, tt.conf))
		if err != nil || d.Check != tt.want {
			t.Errorf("%+v: %+v, %v", tt, d, err)
		}
	}
}

func TestWhatIsNotPossibleIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*cloud.LoadBalancerSpec)
		want   string
	}{
		"UDP":              {func(s *cloud.LoadBalancerSpec) { s.Ports[1].Protocol = corev1.ProtocolUDP }, "spec.ports[1].protocol"},
		"no node ports":    {func(s *cloud.LoadBalancerSpec) { s.Ports[0].NodePort, s.Ports[1].NodePort = 0, 0 }, "spec.ports: Required"},
		"session affinity": {func(s *cloud.LoadBalancerSpec) { s.SessionAffinityTimeout = time.Hour }, "spec.sessionAffinity"},
		"an address":       {func(s *cloud.LoadBalancerSpec) { s.LoadBalancerIP = netip.MustParseAddr("192.0.2.1") }, "spec.loadBalancerIP"},
		"attributes":       {func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.TargetGroupAttributes] = "" }, "target-group-attributes"},
		"backend": {func(s *cloud.LoadBalancerSpec) {
			s.Settings[annotations.Certificate], s.Settings[annotations.BackendProtocol] = "arn", "udp"
		}, "with a certificate it is http, https, ssl or tcp"},
	} {
		s := service()
		tt.change(s)
		_, err := Resolve(s, conf(t, ""))
		if cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, tt := range [][3]string{
		{annotations.CheckInterval, "4", "between 5 and 300"}, {annotations.CheckInterval, "301", "between 5 and 300"},
		{annotations.CheckTimeout, "1", "between 2 and 60"}, {annotations.CheckTimeout, "10", "less than the interval between two checks, of 10 seconds"},
		{annotations.CheckInterval, "5", "less than the interval between two checks, of 5 seconds"},
		{annotations.CheckHealthy, "1", "between 2 and 10"}, {annotations.CheckUnhealthy, "11", "between 2 and 10"},
		{annotations.CheckProtocol, "", "TCP, SSL, HTTP or HTTPS"}, {annotations.CheckProtocol, "UDP", "TCP, SSL, HTTP or HTTPS"},
		{annotations.IdleTimeout, "0", "between 1 and 4000"}, {annotations.LogEnabled, "true", "need a bucket"},
		{annotations.IdleTimeout, "", ""}, {annotations.DrainingTimeout, "", ""}, {annotations.LogInterval, "", ""}, // as if they were not there
	} {
		_, err := Resolve(service(tt[0], tt[1]), conf(t, ""))
		if (err == nil) != (tt[2] == "") || err != nil && (cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), tt[2])) {
			t.Errorf("%q: %v", tt, err)
		}
	}
	for _, tt := range [][4]string{ // numbers count where what they are of is switched on
		{annotations.DrainingEnabled, annotations.DrainingTimeout, "3601", "between 1 and 3600"}, {annotations.DrainingEnabled, annotations.DrainingTimeout, "0", "between 1 and 3600"},
		{annotations.LogEnabled, annotations.LogInterval, "7", "5 or 60"},
	} {
		for _, on := range []string{"true", "false", ""} {
			s := service(annotations.LogBucket, "logs", tt[0], on, tt[1], tt[2])
			d, err := Resolve(s, conf(t, ""))
			if (err != nil) != (on == "true") || err != nil && !strings.Contains(err.Error(), tt[3]) {
				t.Errorf("%q, %s: %v", tt, on, err)
			}
			if err == nil && (d.LogInterval != nil || d.DrainingTimeout != nil) {
				t.Errorf("%q, %s: sent", tt, on)
			}
		}
	}
	s := service(annotations.EIPAllocations, "eipalloc-1", annotations.CheckPort, "1")
	s.IPFamilies, s.SourceRanges = []corev1.IPFamily{corev1.IPv6Protocol}, []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
	if problems, warnings := Check(s); len(problems) > 0 || len(warnings) != 3 {
		t.Errorf("%v, %q", problems, warnings)
	}
	s = service()
	s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	if _, warnings := Check(s); len(warnings) != 1 || !strings.Contains(warnings[0], "by IPv4 alone") {
		t.Errorf("dual stack: %q", warnings)
	}
}

func TestGroupsInPlaceOfItsOwn(t *testing.T) {
	const shared = "ElbSecurityGroup = sg-1\n"
	for _, tt := range []struct {
		conf, annotation string
		want             []string
	}{
		{"", "", nil}, {shared, "", []string{"sg-1"}}, {shared, "sg-2, sg-3", []string{"sg-2", "sg-3"}}, {"", " ,", nil},
	} {
		if got := BaseGroups(cloud.Settings{annotations.SecurityGroups: tt.annotation}, conf(t, tt.conf)); !cmp.Equal(got, tt.want) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// is is a load balancer as wanted, and what is wanted.
func is(t *testing.T, s *cloud.LoadBalancerSpec) (*Observed, *Wanted) {
	t.Helper()
	d, err := Resolve(s, conf(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	w := &Wanted{Desired: d, Subnets: []string{"subnet-1", "subnet-2"}, Groups: []string{"sg-1"}, Instances: []string{"i-1"}, Tags: map[string]string{"a": "b"}}
	timeout := int32(300)
	o := &Observed{Subnets: []string{"subnet-2", "subnet-1"}, Groups: []string{"sg-1"}, Instances: []string{"i-1"}, Listeners: d.Listeners, Check: d.Check, Attributes: d.Attributes,
		Tags: map[string]string{"a": "b", "other": "x"}, ListenerPolicies: map[int32][]string{}, BackendPolicies: map[int32][]string{}}
	o.Attributes.DrainingTimeout = &timeout
	return o, w
}

func TestDiff(t *testing.T) {
	const arn = "arn:aws:acm:eu-central-1:111122223333:certificate/x"
	plain, secure := service(), service(annotations.Certificate, arn, annotations.SSLPorts, "443", annotations.SSLPolicy, "P")
	proxy := service(annotations.ProxyProtocol, "*")
	ssl := Policy{"k8s-SSLNegotiationPolicy-P", "SSLNegotiationPolicyType", [2]string{"Reference-Security-Policy", "P"}}
	idle := Attributes{IdleTimeout: 60}
	for name, tt := range map[string]struct {
		spec   *cloud.LoadBalancerSpec
		change func(*Observed, *Wanted)
		want   Changes
	}{
		"nothing": {plain, func(*Observed, *Wanted) {}, Changes{}},
		"what AWS writes otherwise": {secure, func(o *Observed, _ *Wanted) {
			o.Listeners = []Listener{{443, 30443, "ssl", "tcp", strings.ToUpper(arn)}, {80, 30080, "tcp", "tcp", ""}}
			o.Policies, o.ListenerPolicies[443] = []string{ssl.Name}, []string{ssl.Name}
			o.Check.Target = "tcp:30080"
		}, Changes{}},
		"subnets":            {plain, func(o *Observed, _ *Wanted) { o.Subnets = []string{"subnet-1", "subnet-3"} }, Changes{Detach: []string{"subnet-3"}, Attach: []string{"subnet-2"}}},
		"all subnets":        {plain, func(o *Observed, _ *Wanted) { o.Subnets = []string{"subnet-3"} }, Changes{Detach: []string{"subnet-3"}, Attach: []string{"subnet-1", "subnet-2"}, AttachFirst: true}},
		"groups":             {plain, func(o *Observed, _ *Wanted) { o.Groups = []string{"sg-1", "sg-2"} }, Changes{Groups: []string{"sg-1"}}},
		"tags":               {plain, func(o *Observed, _ *Wanted) { o.Tags = nil }, Changes{Tags: map[string]string{"a": "b"}}},
		"a listener is gone": {plain, func(o *Observed, _ *Wanted) { o.Listeners = o.Listeners[:1] }, Changes{AddListeners: []Listener{{443, 30443, "TCP", "TCP", ""}}}},
		"a listener is other": {plain, func(o *Observed, _ *Wanted) {
			o.Listeners = []Listener{o.Listeners[0], {443, 1, "TCP", "TCP", ""}}
			o.BackendPolicies[1] = []string{ProxyPolicy}
		}, Changes{Closed: []BackendPolicy{{1, false}}, RemoveListeners: []int32{443}, AddListeners: []Listener{{443, 30443, "TCP", "TCP", ""}}}},
		"the policy of a listener": {secure, func(o *Observed, _ *Wanted) {
			o.Policies, o.ListenerPolicies[443] = []string{ssl.Name}, []string{"ELBSecurityPolicy-2016-08"}
		}, Changes{SSL: []ListenerPolicy{{443, ssl.Name}}}},
		"no policy yet": {secure, func(*Observed, *Wanted) {}, Changes{Policies: []Policy{ssl}, SSL: []ListenerPolicy{{443, ssl.Name}}}},
		"proxy protocol": {proxy, func(o *Observed, _ *Wanted) { o.BackendPolicies[30080] = []string{ProxyPolicy} },
			Changes{Policies: []Policy{{ProxyPolicy, "ProxyProtocolPolicyType", [2]string{"ProxyProtocol", "true"}}}, Backends: []BackendPolicy{{30443, true}}}},
		"no proxy protocol": {plain, func(o *Observed, _ *Wanted) { o.BackendPolicies[30080] = []string{ProxyPolicy} }, Changes{Backends: []BackendPolicy{{30080, false}}}},
		"attributes":        {plain, func(o *Observed, _ *Wanted) { o.Attributes.CrossZone = true }, Changes{Attributes: &idle}},
		"check":             {plain, func(o *Observed, _ *Wanted) { o.Check.Interval = 30 }, Changes{Check: &HealthCheck{"TCP:30080", 10, 5, 2, 6}}},
		"instances":         {plain, func(o *Observed, _ *Wanted) { o.Instances = []string{"i-2"} }, Changes{Register: []string{"i-1"}, Deregister: []string{"i-2"}}},
	} {
		o, w := is(t, tt.spec)
		tt.change(o, w)
		got := Diff(o, w)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (len(got.Summary()) == 0) != (name == "nothing" || name == "what AWS writes otherwise") {
			t.Errorf("%s: %q", name, got.Summary())
		}
	}
}
