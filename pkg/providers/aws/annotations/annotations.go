// Package annotations is the vocabulary of Service annotations: names, forms of values and what the reference says of them, for
// network and classic load balancers, which share most of them.
//
// It does not say what an annotation makes of a load balancer: elbv2/plan and elb/plan do.
//
// Why one table: which type a Service has is one of its annotations, and a Service has one vocabulary.
package annotations

//go:generate go run ../../../../hack/gen-annotations aws ../../../../docs/reference/service-annotations-aws.md

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const prefix = "service.beta.kubernetes.io/aws-load-balancer-"

// Names of the annotations. They are the ones that existing clusters use.
const (
	sourceRanges = corev1.AnnotationLoadBalancerSourceRangesKey

	Type                  = prefix + "type"
	Internal              = prefix + "internal"
	Subnets               = prefix + "subnets"
	SecurityGroups        = prefix + "security-groups"
	ExtraSecurityGroups   = prefix + "extra-security-groups"
	Tags                  = prefix + "additional-resource-tags"
	NodeLabels            = prefix + "target-node-labels"
	Certificate           = prefix + "ssl-cert"
	SSLPorts              = prefix + "ssl-ports"
	SSLPolicy             = prefix + "ssl-negotiation-policy"
	BackendProtocol       = prefix + "backend-protocol"
	ProxyProtocol         = prefix + "proxy-protocol"
	LogEnabled            = prefix + "access-log-enabled"
	LogBucket             = prefix + "access-log-s3-bucket-name"
	LogPrefix             = prefix + "access-log-s3-bucket-prefix"
	LogInterval           = prefix + "access-log-emit-interval"
	DrainingEnabled       = prefix + "connection-draining-enabled"
	DrainingTimeout       = prefix + "connection-draining-timeout"
	IdleTimeout           = prefix + "connection-idle-timeout"
	CrossZone             = prefix + "cross-zone-load-balancing-enabled"
	CheckProtocol         = prefix + "healthcheck-protocol"
	CheckPort             = prefix + "healthcheck-port"
	CheckPath             = prefix + "healthcheck-path"
	CheckInterval         = prefix + "healthcheck-interval"
	CheckTimeout          = prefix + "healthcheck-timeout"
	CheckHealthy          = prefix + "healthcheck-healthy-threshold"
	CheckUnhealthy        = prefix + "healthcheck-unhealthy-threshold"
	TargetGroupAttributes = prefix + "target-group-attributes"
	EIPAllocations        = prefix + "eip-allocations"
	PrivateAddresses      = prefix + "private-ipv4-addresses"
)

// Values of Type that mean something; all others mean a classic load balancer.
const (
	NLB      = "nlb"
	NLBIP    = "nlb-ip"
	External = "external"
)

// TrafficPort is the value of CheckPort by which each target is checked at the port that it serves.
const TrafficPort = "traffic-port"

// Tags that say whose an object is.
const (
	// ServiceTag has the namespace and name of the Service.
	ServiceTag = "kubernetes.io/service-name"
	legacyTag  = "KubernetesCluster"
)

// truths are the words for true and false, as Go's strconv.ParseBool takes them.
var truths = []string{"true", "false", "1", "0", "t", "f", "T", "F", "TRUE", "FALSE", "True", "False"} //nolint:gochecknoglobals // a constant

// Table is the vocabulary. Of annotations that not all load balancers read it takes all values: CheckClassic and CheckGroups are for
// those that do.
func Table() []cloud.Annotation {
	flag := func(name, doc string) cloud.Annotation {
		return cloud.Annotation{Name: name, Type: cloud.TypeEnum, Enum: truths, Default: "false", Doc: doc}
	}
	number := func(name, usual, doc string) cloud.Annotation {
		return cloud.Annotation{Name: name, Type: cloud.TypeString, Parse: parseNumber, Default: usual, Doc: doc}
	}
	list := func(name, doc string) cloud.Annotation {
		return cloud.Annotation{Name: name, Type: cloud.TypeList, Doc: doc}
	}
	word := func(name, usual, doc string) cloud.Annotation {
		return cloud.Annotation{Name: name, Type: cloud.TypeString, Default: usual, Doc: doc}
	}
	return []cloud.Annotation{
		// Which load balancer, and where it is reached.
		word(Type, "a classic load balancer",
			"`nlb` makes a network load balancer; `nlb-ip` and `external` leave the Service to aws-load-balancer-controller; anything else makes a classic one. It cannot be changed afterwards."),
		word(Internal, "false", "Any text but `false` makes a load balancer without public addresses. Only when it is made."),
		{Name: Subnets, Type: cloud.TypeList, Parse: parseSubnets, Default: "one subnet in each availability zone, by tags",
			Doc: "Subnets, by ID or by their tag `Name`. Of a network load balancer only when it is made."},
		list(EIPAllocations, "Network load balancers only: allocation IDs of Elastic IPs, one for each subnet. Only when it is made."),
		list(PrivateAddresses, "Network load balancers only: private IPv4 addresses, one for each subnet. Only when it is made."),
		list(Tags, "Tags such as `team=web,stage=live` of what is made for the Service. Those that AWS or controllers go by (`aws:…`, `kubernetes.io/…`, `k8s.io/…`, `….k8s.aws/…`, `karpenter.sh/…`, `eks.amazonaws.com/…`, `isthmus-cloud.github.io/…`, `KubernetesCluster`) are left out."),
		// Who is let in.
		{Name: sourceRanges, Type: cloud.TypeCIDRs, Default: "everyone", Doc: "Clients that are let in; `spec.loadBalancerSourceRanges` goes before it."},
		list(SecurityGroups, "IDs of security groups in place of the load balancer's own, whose rules are left alone. Of a network load balancer with `NLBSecurityGroupMode = Managed` only."),
		list(ExtraSecurityGroups, "Classic load balancers only: IDs of security groups beside its own."),
		// Nodes.
		{Name: NodeLabels, Type: cloud.TypeSelector, Doc: "Labels, such as `disk=ssd,gpu`, of the Nodes that get traffic."},
		// Listeners.
		word(Certificate, "", "ARN of the certificate with which the load balancer ends TLS."),
		word(SSLPorts, "all ports", "Ports, by number or name, that end TLS with the certificate; `*` is all."),
		word(SSLPolicy, "AWS's", "Name of the security policy of listeners that end TLS."),
		word(BackendProtocol, "", "What Nodes speak behind the load balancer: of a classic one `http`, `https`, `ssl` or `tcp`, of a network load balancer `ssl` or nothing."),
		word(ProxyProtocol, "", "Classic load balancers only: `*` sends the PROXY protocol to all ports."),
		word(IdleTimeout, "60", "Classic load balancers only: seconds after which an idle connection is closed."),
		word(DrainingEnabled, "false", "Classic load balancers only: `true` lets connections end when a Node goes."),
		word(DrainingTimeout, "", "Classic load balancers only: seconds that connections have to end."),
		flag(CrossZone, "Send traffic to Nodes of all availability zones."),
		list(TargetGroupAttributes, "Network load balancers only: `preserve_client_ip.enabled` and `proxy_protocol_v2.enabled`, each `=true` or `=false`."),
		// Access logs.
		flag(LogEnabled, "Write access logs to a bucket of S3."),
		word(LogBucket, "", "The bucket of the access logs."),
		word(LogPrefix, "", "What the names of access logs in the bucket begin with."),
		word(LogInterval, "", "Classic load balancers only: minutes between two access logs, 5 or 60."),
		// Health checks.
		word(CheckProtocol, "TCP, with `externalTrafficPolicy: Local` HTTP", "`TCP`, `HTTP` or `HTTPS`, of a classic load balancer also `SSL`."),
		{Name: CheckPort, Type: cloud.TypeString, Parse: parseCheckPort, Default: "traffic-port, with `externalTrafficPolicy: Local` the Service's `healthCheckNodePort`",
			Doc: "Port that is checked; `traffic-port` is the one that serves."},
		word(CheckPath, "`/`, with `externalTrafficPolicy: Local` `/healthz`", "Path that is asked for by HTTP and HTTPS."),
		number(CheckInterval, "30, with `externalTrafficPolicy: Local` and of a classic load balancer 10", "Seconds between two checks."),
		number(CheckTimeout, "AWS's, of a classic load balancer 5", "Seconds that an answer may take."),
		number(CheckHealthy, "3, with `externalTrafficPolicy: Local` and of a classic load balancer 2", "Checks in a row after which a Node is healthy."),
		number(CheckUnhealthy, "3, with `externalTrafficPolicy: Local` 2, of a classic load balancer 6", "Failed checks in a row after which a Node is not healthy."),
	}
}

func parseNumber(value string) error {
	if n, err := strconv.ParseInt(value, 10, 32); err != nil || n < 0 {
		return errors.New("use a number such as 30")
	}
	return nil
}

func parseSubnets(value string) error {
	if len(text.List(value)) == 0 {
		return errors.New("use a comma-separated list of IDs or names of subnets, or remove it")
	}
	return nil
}

func parseCheckPort(value string) error {
	if n, err := strconv.ParseUint(value, 10, 16); value != TrafficPort && (err != nil || n == 0) {
		return errors.New("use the number of a port, or traffic-port")
	}
	return nil
}

// Pairs are keys with values, as in "team=web,stage": a key without a value has "", a value ends at a further "=".
func Pairs(value string) map[string]string {
	out := map[string]string{}
	for _, item := range text.List(value) {
		parts := strings.Split(item, "=")
		if parts[0] == "" {
			continue
		}
		out[parts[0]] = ""
		if len(parts) > 1 {
			out[parts[0]] = parts[1]
		}
	}
	return out
}

// UserTags are the tags that a Service wishes for what is made for it, without reserved ones.
func UserTags(s cloud.Settings) map[string]string {
	out := Pairs(s.String(Tags, ""))
	maps.DeleteFunc(out, func(key, _ string) bool { return isReserved(key) })
	return out
}

// ReservedTags warns of the tags that a Service wishes for and does not get.
func ReservedTags(s cloud.Settings) (warnings []string) {
	for _, key := range slices.Sorted(maps.Keys(Pairs(s.String(Tags, "")))) {
		if isReserved(key) {
			warnings = append(warnings, fmt.Sprintf("annotation %s: the tag %.100q is left out, as AWS or a controller goes by it", Tags, key))
		}
	}
	return warnings
}

// reserved are the domains of tags that say whose an object is, or what controllers do with it, with those below them.
var reserved = []string{"kubernetes.io", "k8s.io", "k8s.aws", "karpenter.sh", "eks.amazonaws.com", "isthmus-cloud.github.io"} //nolint:gochecknoglobals // a constant

// isReserved reports whether a tag says whose an object is, so that a Service could give it away or take what is another's; or has a
// controller do something with it, as Karpenter gives machines the security groups with its tag; or is AWS' own.
func isReserved(key string) bool {
	domain, _, _ := strings.Cut(strings.ToLower(key), "/")
	return key == legacyTag || strings.HasPrefix(domain, "aws:") ||
		slices.ContainsFunc(reserved, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

// IsTrue reports whether an annotation says true in one of the words for it. Nothing is false.
func IsTrue(s cloud.Settings, name string) bool {
	b, err := strconv.ParseBool(s.String(name, ""))
	return err == nil && b
}

// IsInternal reports whether a load balancer without public addresses is wanted.
func IsInternal(s cloud.Settings) bool {
	v := s.String(Internal, "")
	return v != "" && v != "false"
}

// InternalStays is what to say of a load balancer that is to be Internal and is not, or the other way round.
func InternalStays(internal bool) string {
	is := map[bool]string{true: "internal", false: "internet-facing"}[internal]
	return "annotation " + Internal + " counts when a load balancer is made: this one stays " + is + "; delete the Service and make it anew to have another one"
}

// Ports are those of SSLPorts: all where it says none.
type Ports struct {
	all   bool
	items map[string]bool
}

// EndsTLS reads SSLPorts. Its items are taken as they are, blanks too, as the existing manager takes them.
func EndsTLS(s cloud.Settings) Ports {
	value := s.String(SSLPorts, "")
	if value == "" || value == "*" {
		return Ports{all: true}
	}
	items := map[string]bool{}
	for item := range strings.SplitSeq(value, ",") {
		if n, err := strconv.Atoi(item); err == nil {
			item = strconv.Itoa(n)
		}
		items[item] = true
	}
	return Ports{items: items}
}

// Has reports whether a port is one of them, by its number or by a name.
func (p Ports) Has(number int32, name string) bool {
	return p.all || p.items[strconv.Itoa(int(number))] || p.items[name] && name != ""
}
