package plan

//go:generate go run ../../../../../hack/gen-annotations openstack ../../../../../docs/reference/service-annotations-openstack.md

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Names of the Service annotations. They are the ones that existing clusters use.
const (
	annotationPrefix = "loadbalancer.openstack.org/"

	AnnInternal     = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	AnnSourceRanges = corev1.AnnotationLoadBalancerSourceRangesKey

	AnnClass              = annotationPrefix + "class"
	AnnFloatingNetworkID  = annotationPrefix + "floating-network-id"
	AnnFloatingSubnet     = annotationPrefix + "floating-subnet"
	AnnFloatingSubnetID   = annotationPrefix + "floating-subnet-id"
	AnnFloatingSubnetTags = annotationPrefix + "floating-subnet-tags"
	AnnKeepFloatingIP     = annotationPrefix + "keep-floatingip"
	AnnSubnetID           = annotationPrefix + "subnet-id"
	AnnMemberSubnetID     = annotationPrefix + "member-subnet-id"
	AnnNetworkID          = annotationPrefix + "network-id"
	AnnPortID             = annotationPrefix + "port-id"
	AnnConnectionLimit    = annotationPrefix + "connection-limit"
	AnnTimeoutClient      = annotationPrefix + "timeout-client-data"
	AnnTimeoutConnect     = annotationPrefix + "timeout-member-connect"
	AnnTimeoutMember      = annotationPrefix + "timeout-member-data"
	AnnTimeoutInspect     = annotationPrefix + "timeout-tcp-inspect"
	AnnForwardedFor       = annotationPrefix + "x-forwarded-for"
	AnnTLSContainerRef    = annotationPrefix + "default-tls-container-ref"
	AnnMethod             = annotationPrefix + "lb-method"
	AnnProxyProtocol      = annotationPrefix + "proxy-protocol"
	AnnNodeSelector       = annotationPrefix + "node-selector"
	AnnMonitor            = annotationPrefix + "enable-health-monitor"
	AnnMonitorDelay       = annotationPrefix + "health-monitor-delay"
	AnnMonitorTimeout     = annotationPrefix + "health-monitor-timeout"
	AnnMonitorRetries     = annotationPrefix + "health-monitor-max-retries"
	AnnMonitorRetriesDown = annotationPrefix + "health-monitor-max-retries-down"
	AnnFlavorID           = annotationPrefix + "flavor-id"
	AnnAvailabilityZone   = annotationPrefix + "availability-zone"
	AnnLoadBalancerID     = annotationPrefix + "load-balancer-id"
	AnnAddress            = annotationPrefix + "load-balancer-address"
	AnnHostname           = annotationPrefix + "hostname"
)

// Limits of Octavia (octavia.common.constants).
const (
	maxTimeout     = 24 * 24 * 60 * 60 * 1000 // ms
	maxConnections = 1 << 30
)

// Defaults of the listeners' timeouts, in ms.
const (
	dataTimeout    = 50000
	connectTimeout = 5000
)

// Annotations is the vocabulary of Service annotations under a configuration: the node selector
// of cloud.conf is the default of the annotation.
func Annotations(cfg *config.LoadBalancer) []cloud.Annotation {
	return []cloud.Annotation{
		// Where the load balancer is reached and which one it is.
		{Name: AnnInternal, Type: cloud.TypeBool, Default: "false", Doc: "Give the load balancer no floating IP. `[LoadBalancer] internal-lb = true` goes before it."},
		{Name: AnnClass, Type: cloud.TypeString, Doc: "Take networks and subnets from the section `[LoadBalancerClass \"…\"]` of cloud.conf, as `spec.loadBalancerClass` does; what it sets goes before the annotations."},
		{Name: AnnFloatingNetworkID, Type: cloud.TypeUUID, RefuseNew: true, Default: "`[LoadBalancer] floating-network-id`, or the first external network with an IPv4 subnet", Doc: "External network of the floating IP."},
		{Name: AnnFloatingSubnet, Type: cloud.TypeString, Default: "`[LoadBalancer] floating-subnet`", Doc: "Name pattern of the floating IP's subnet, for the whole name: a glob (`public-*`, `{a,b}`), a regular expression after `~`, either negated by a leading `!`. It, the ID and the tags go before those of cloud.conf together."},
		{Name: AnnFloatingSubnetID, Type: cloud.TypeUUID, RefuseNew: true, Default: "`[LoadBalancer] floating-subnet-id`", Doc: "Subnet of the floating IP; goes before the name pattern and the tags."},
		{Name: AnnFloatingSubnetTags, Type: cloud.TypeString, Default: "`[LoadBalancer] floating-subnet-tags`", Doc: "Tags of the floating IP's subnet, separated by commas or blanks: one of them; after `&` all of them, after `!` not all of them, after `!&` none of them."},
		{Name: AnnKeepFloatingIP, Type: cloud.TypeBool, Default: "false", Doc: "Leave the floating IP in the project when the Service is deleted or becomes internal."},
		{Name: AnnSubnetID, Type: cloud.TypeUUID, RefuseNew: true, Default: "`[LoadBalancer] subnet-id`", Doc: "Subnet of the VIP; fixed at creation. The VIP of another IP family of the Service is in a subnet of the same network: its only one of that family, or the one that the Nodes are in."},
		{Name: AnnNetworkID, Type: cloud.TypeUUID, RefuseNew: true, Default: "`[LoadBalancer] network-id`", Doc: "Network of the VIP; fixed at creation."},
		{Name: AnnPortID, Type: cloud.TypeUUID, RefuseNew: true, Doc: "Existing Neutron port to be the VIP; fixed at creation."},
		{Name: AnnLoadBalancerID, Type: cloud.TypeUUID, Written: true, Doc: "The load balancer's ID, written once it exists. Set it beforehand to share a load balancer of another Service or to use one of your own."},
		{Name: AnnAddress, Type: cloud.TypeIP, Ignorable: true, Written: true, Doc: "The load balancer's address."},
		{Name: AnnHostname, Type: cloud.TypeHostname, Doc: "Host name to publish in the Service's status in place of the address."},
		{Name: AnnFlavorID, Type: cloud.TypeUUID, RefuseNew: true, Default: "`[LoadBalancer] flavor-id`", Doc: "Octavia flavor; fixed at creation."},
		{Name: AnnAvailabilityZone, Type: cloud.TypeString, Default: "`[LoadBalancer] availability-zone`", Doc: "Octavia availability zone; fixed at creation."},

		// How traffic is accepted.
		{Name: AnnSourceRanges, Type: cloud.TypeCIDRs, Doc: "Clients let in, used when `spec.loadBalancerSourceRanges` is empty."},
		{Name: AnnConnectionLimit, Type: cloud.TypeInt, Min: -1, Max: maxConnections, Default: "-1", Doc: "Connections per listener; -1 for no limit."},
		{Name: AnnTimeoutClient, Type: cloud.TypeInt, Max: maxTimeout, Default: "50000", Doc: "Inactivity of the client, in ms, after which a connection is closed; not with provider ovn."},
		{Name: AnnTimeoutConnect, Type: cloud.TypeInt, Max: maxTimeout, Default: "5000", Doc: "Time to connect to a member, in ms; not with provider ovn."},
		{Name: AnnTimeoutMember, Type: cloud.TypeInt, Max: maxTimeout, Default: "50000", Doc: "Inactivity of the member, in ms, after which a connection is closed; not with provider ovn."},
		{Name: AnnTimeoutInspect, Type: cloud.TypeInt, Max: maxTimeout, Default: "0", Doc: "Time to wait for more TCP packets to inspect, in ms; not with provider ovn."},
		{Name: AnnForwardedFor, Type: cloud.TypeBool, Default: "false", Doc: "Make TCP listeners HTTP listeners that add the header X-Forwarded-For."},
		{Name: AnnTLSContainerRef, Type: cloud.TypeString, Default: "`[LoadBalancer] default-tls-container-ref`", Doc: "Barbican container or secret of the certificate: TCP listeners end TLS."},

		// How traffic reaches the Nodes.
		{Name: AnnMemberSubnetID, Type: cloud.TypeUUID, Ignorable: true, Default: "`[LoadBalancer] member-subnet-id`, or the subnet that the members are in", Doc: "Subnet of the members; a change takes effect when the members change next. Provider ovn keeps the one that a member was made with."},
		{Name: AnnMethod, Type: cloud.TypeEnum, RefuseNew: true, Enum: []string{config.MethodRoundRobin, config.MethodLeastConnections, config.MethodSourceIP, config.MethodSourceIPPort},
			Default: "`[LoadBalancer] lb-method`", Doc: "Algorithm; provider ovn knows SOURCE_IP_PORT only, provider amphora all but that."},
		{Name: AnnProxyProtocol, Type: cloud.TypeEnum, Ignorable: true, Enum: []string{"true", "false", "v1", "v2"}, Default: "false",
			Doc: "Send the PROXY protocol to TCP members; true is v1. The Service's status then says `ipMode: Proxy`."},
		{Name: AnnNodeSelector, Type: cloud.TypeSelector, Default: cfg.NodeSelector, Doc: "Nodes that become members, as a list of labels (`disk=ssd,gpu`: a label without a value must exist) or a label selector (`zone in (a, b)`); `[LoadBalancer] node-selector` when it is not set."},
		{Name: AnnMonitor, Type: cloud.TypeBool, Default: "`[LoadBalancer] create-monitor`", Doc: "Check the members' health. `externalTrafficPolicy: Local` always does."},
		{Name: AnnMonitorDelay, Type: cloud.TypeInt, Min: 1, Max: config.MaxSeconds, Default: "`[LoadBalancer] monitor-delay`", Doc: "Seconds between two checks."},
		{Name: AnnMonitorTimeout, Type: cloud.TypeInt, Min: 1, Max: config.MaxSeconds, Default: "`[LoadBalancer] monitor-timeout`", Doc: "Seconds that a check may take."},
		{Name: AnnMonitorRetries, Type: cloud.TypeInt, Min: 1, Max: config.MaxRetries, Default: "`[LoadBalancer] monitor-max-retries`", Doc: "Successful checks that bring a member back."},
		{Name: AnnMonitorRetriesDown, Type: cloud.TypeInt, Min: 1, Max: config.MaxRetries, Default: "`[LoadBalancer] monitor-max-retries-down`", Doc: "Failed checks that take a member out."},
	}
}

// tune gives a listener what annotations say about it alone. What several settings decide together is Resolve's.
func (l *Listener) tune(s cloud.Settings, ovn bool) {
	l.Connections = s.Int(AnnConnectionLimit, -1) // ovn keeps it, without effect
	if ovn {
		return
	}
	l.Timeouts = &Timeouts{
		Client:  s.Int(AnnTimeoutClient, dataTimeout),
		Connect: s.Int(AnnTimeoutConnect, connectTimeout),
		Member:  s.Int(AnnTimeoutMember, dataTimeout),
		Inspect: s.Int(AnnTimeoutInspect, 0),
	}
}
