package plan

import (
	"slices"
	"strconv"
	"time"
)

// Protocols of listeners and target groups.
const (
	protocolTCP = "TCP"
	protocolUDP = "UDP"
	TLS         = "TLS"
)

// Attributes of load balancers.
const (
	crossZone  = "load_balancing.cross_zone.enabled"
	logEnabled = "access_logs.s3.enabled"
	logBucket  = "access_logs.s3.bucket"
	logPrefix  = "access_logs.s3.prefix"
)

// Attributes of target groups.
const (
	preserveClientIP = "preserve_client_ip.enabled"
	proxyProtocol    = "proxy_protocol_v2.enabled"
)

// HealthCheck is how targets are checked. A Timeout of 0 is AWS' own.
type HealthCheck struct {
	// Port is a number or traffic-port, Path is empty for TCP.
	Protocol, Port, Path                  string
	Interval, Timeout, Healthy, Unhealthy int32
}

// Target is an instance at a port.
type Target struct {
	ID   string
	Port int32
}

// TargetGroup is a target group as it shall be or as it is. What it has no ARN of is not there yet.
type TargetGroup struct {
	ARN, Name  string
	Protocol   string
	Port       int32
	IPv6       bool   // by which its targets are reached
	VPC        string // of one that is there
	Check      HealthCheck
	Attributes map[string]string // those that count; nil where they are not known
	// Of one that is there:
	Balancers []string // ARNs of the load balancers that send traffic to it
	Targets   []Target // without those that are going
	Tags      map[string]string
}

// Clone is a copy that shares nothing that is changed.
func (g *TargetGroup) Clone() *TargetGroup {
	out := *g
	out.Balancers, out.Targets = slices.Clone(g.Balancers), slices.Clone(g.Targets)
	return &out
}

// Listener is a listener as it shall be or as it is.
type Listener struct {
	ARN                 string
	Port                int32
	Protocol            string
	Certificate, Policy string // of TLS; an empty Policy is AWS' own
	// Group is the ARN of its target group, Wanted the target group that it shall have.
	Group  string
	Wanted *TargetGroup
}

// Balancer is a load balancer as it is.
type Balancer struct {
	ARN, Name, DNSName, Type, State, VPC string
	Internal                             bool
	DualStack                            bool // it is reached by IPv6, too
	Subnets                              []string
	SecurityGroups                       []string
	Tags, Attributes                     map[string]string
	Created                              time.Time
	Listeners                            []Listener
	// Groups are the target groups of the Service: those that are the load balancer's, and others that are left over.
	Groups []*TargetGroup
}

// Clone is a copy that shares nothing that is changed.
func (b *Balancer) Clone() *Balancer {
	out := *b
	out.Listeners, out.Groups = slices.Clone(b.Listeners), make([]*TargetGroup, 0, len(b.Groups))
	for _, g := range b.Groups {
		out.Groups = append(out.Groups, g.Clone())
	}
	return &out
}

// CheckPorts are the ports that target groups of the load balancer check, but for those that one of them serves.
func (b *Balancer) CheckPorts() (out []int32) {
	for _, g := range b.Groups {
		n, err := strconv.ParseInt(g.Check.Port, 10, 32)
		port := int32(n) //nolint:gosec // of 32 bits
		if err == nil && slices.Contains(g.Balancers, b.ARN) && !slices.ContainsFunc(b.Groups, func(o *TargetGroup) bool { return o.Port == port }) {
			out = append(out, port)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Group returns the target group of an ARN, nil if there is none.
func (b *Balancer) Group(arn string) *TargetGroup {
	if i := slices.IndexFunc(b.Groups, func(g *TargetGroup) bool { return g.ARN == arn }); i >= 0 {
		return b.Groups[i]
	}
	return nil
}
