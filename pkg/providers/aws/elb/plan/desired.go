package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Desired is what a Service wants of a classic load balancer.
type Desired struct {
	Name string
	// Internal counts when it is made.
	Internal bool
	// Tags are the user's.
	Tags map[string]string
	// NamedSubnets are those of the annotation, empty where they are to be discovered.
	NamedSubnets []string
	// BaseGroups are the security groups in place of the load balancer's own, ExtraGroups those beside.
	BaseGroups, ExtraGroups []string
	Clients                 []netip.Prefix
	Listeners               []Listener
	// Proxy sends the PROXY protocol to instances. SSLPolicy is the policy of listeners that end TLS, "" for whatever they have.
	Proxy     bool
	SSLPolicy string
	Check     HealthCheck
	Attributes
}

// Listener is a listener, with protocols as AWS shows them.
type Listener struct {
	Port, InstancePort                      int32
	Protocol, InstanceProtocol, Certificate string
}

func (l Listener) endsTLS() bool { return l.Protocol == "SSL" || l.Protocol == "HTTPS" }

// HealthCheck is how instances are checked; Target is such as "HTTP:80/healthz".
type HealthCheck struct {
	Target                                string
	Interval, Timeout, Healthy, Unhealthy int32
}

// Attributes are a load balancer's attributes. What is nil or empty but in LogEnabled, Draining and CrossZone may be anything.
type Attributes struct {
	CrossZone, LogEnabled, Draining bool
	LogBucket, LogPrefix            string
	LogInterval, DrainingTimeout    *int32
	IdleTimeout                     int32
}

// nameLength is how long a name may be.
const nameLength = 32

// Name is the load balancer's: "a" and the Service's UID without dashes, which loses its last digit.
func Name(ref cloud.LoadBalancerRef) string {
	name := "a" + strings.ReplaceAll(ref.UID, "-", "")
	return name[:min(len(name), nameLength)]
}

// GroupName is the name of the load balancer's own security group.
func GroupName(ref cloud.LoadBalancerRef) string { return "k8s-elb-" + Name(ref) }

// GroupDescription is the description of the load balancer's own security group.
func GroupDescription(ref cloud.LoadBalancerRef) string {
	return "Security group for Kubernetes ELB " + Name(ref) + " (" + ref.Namespace + "/" + ref.Name + ")"
}

// Service is the tag of the Service's namespace and name.
const Service = annotations.ServiceTag

// Resolve is what the Service wants. The error has all that Check says.
func Resolve(spec *cloud.LoadBalancerSpec, cfg *config.Global) (*Desired, error) {
	problems, _ := Check(spec)
	if err := cloud.Refuse(cloud.KindInvalid, "", problems); err != nil {
		return nil, err
	}
	s := spec.Settings
	d := &Desired{
		Name: Name(spec.LoadBalancerRef), Internal: annotations.IsInternal(s), Tags: annotations.UserTags(s),
		NamedSubnets: text.List(s.String(annotations.Subnets, "")),
		BaseGroups:   BaseGroups(s, cfg), ExtraGroups: text.List(s.String(annotations.ExtraSecurityGroups, "")),
		Clients: spec.SourceRanges, Proxy: s.String(annotations.ProxyProtocol, "") != "", SSLPolicy: s.String(annotations.SSLPolicy, ""),
		Listeners: listeners(spec), Attributes: attributes(s),
	}
	if len(d.Clients) == 0 {
		d.Clients = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
	}
	d.Check = check(spec, cfg, d.Listeners)
	return d, nil
}

// BaseGroups are the security groups in place of the load balancer's own, of the annotation or of cloud.conf.
func BaseGroups(s cloud.Settings, cfg *config.Global) []string {
	groups := text.List(s.String(annotations.SecurityGroups, ""))
	if len(groups) == 0 && cfg.ElbSecurityGroup != "" {
		groups = []string{cfg.ElbSecurityGroup}
	}
	return groups
}

// listeners are those of the ports that instances serve.
func listeners(spec *cloud.LoadBalancerSpec) []Listener {
	var out []Listener
	for i := range spec.Ports {
		if spec.Ports[i].NodePort != 0 {
			out = append(out, listener(spec.Settings, &spec.Ports[i]))
		}
	}
	return out
}

// outside are the protocols of clients by those of instances, where the load balancer ends TLS.
func outside(instances string) string {
	return map[string]string{"https": "HTTPS", "http": "HTTPS", "ssl": "SSL", "tcp": "SSL"}[instances]
}

func listener(s cloud.Settings, p *cloud.LoadBalancerPort) Listener {
	l := Listener{Port: p.Port, InstancePort: p.NodePort, Protocol: "TCP", InstanceProtocol: "TCP"}
	backend := s.String(annotations.BackendProtocol, "")
	certificate := s.String(annotations.Certificate, "")
	switch {
	case certificate != "" && annotations.EndsTLS(s).Has(p.Port, strings.ToLower(p.Name)):
		l.Certificate = certificate
		l.Protocol, l.InstanceProtocol = outside(cmp.Or(backend, "tcp")), strings.ToUpper(cmp.Or(backend, "tcp"))
	case backend == "http":
		l.Protocol, l.InstanceProtocol = "HTTP", "HTTP"
	}
	return l
}

// checkInterval and checkTimeout are those of health checks where the Service says nothing.
const checkInterval, checkTimeout = 10, 5

// check is how instances are checked: as the Service's policy Local demands, else as the annotations say, by default by TCP on the
// first port that they serve, or where all load balancers share one check on that.
func check(spec *cloud.LoadBalancerSpec, cfg *config.Global, all []Listener) HealthCheck {
	s, traffic := spec.Settings, int32(0)
	if len(all) > 0 {
		traffic = all[0].InstancePort
	}
	protocol, port, path := "TCP", traffic, ""
	switch local := spec.HealthCheck; {
	case local != nil && s.String(annotations.CheckPort, "") == annotations.TrafficPort:
		protocol, path = "HTTP", local.Path
	case local != nil:
		protocol, port, path = "HTTP", local.Port, local.Path
	case cfg.SharedProbe():
		protocol, port, path = "HTTP", int32(cfg.SharedHealthProbePort), cfg.SharedHealthProbePath //nolint:gosec // a port
	case slices.Contains([]string{"https", "ssl"}, strings.ToLower(s.String(annotations.BackendProtocol, ""))):
		protocol = "SSL"
	}
	protocol = s.String(annotations.CheckProtocol, protocol)
	port = number(s, annotations.CheckPort, port)
	if up := strings.ToUpper(protocol); up == "HTTP" || up == "HTTPS" {
		path = cmp.Or(s.String(annotations.CheckPath, ""), path, "/")
	} else {
		path = ""
	}
	return HealthCheck{
		Target:   protocol + ":" + strconv.Itoa(int(port)) + path,
		Interval: number(s, annotations.CheckInterval, checkInterval), Timeout: number(s, annotations.CheckTimeout, checkTimeout),
		Healthy: number(s, annotations.CheckHealthy, 2), Unhealthy: number(s, annotations.CheckUnhealthy, 6),
	}
}

func number(s cloud.Settings, name string, def int32) int32 {
	return int32(s.Int(name, int(def))) //nolint:gosec // checked
}

func attributes(s cloud.Settings) Attributes {
	a := Attributes{
		CrossZone: annotations.IsTrue(s, annotations.CrossZone), LogEnabled: annotations.IsTrue(s, annotations.LogEnabled),
		Draining: annotations.IsTrue(s, annotations.DrainingEnabled), LogBucket: s.String(annotations.LogBucket, ""),
		LogPrefix: s.String(annotations.LogPrefix, ""), IdleTimeout: number(s, annotations.IdleTimeout, 60),
	}
	for name, at := range map[string]**int32{annotations.LogInterval: &a.LogInterval, annotations.DrainingTimeout: &a.DrainingTimeout} {
		if n := number(s, name, 0); s.String(name, "") != "" && possible(name, int(n)) {
			*at = &n
		}
	}
	return a
}

// possible reports whether AWS takes n as the interval of access logs or the timeout of draining. What it does not take is refused
// where it counts (checkLimits), and not sent where logs or draining are switched off.
func possible(name string, n int) bool {
	if name == annotations.LogInterval {
		return n == 5 || n == 60
	}
	return n >= 1 && n <= 3600
}

// supported reports whether classic load balancers have the protocol.
func supported(p corev1.Protocol) bool { return p == corev1.ProtocolTCP }
