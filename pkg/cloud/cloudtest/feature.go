package cloudtest

// Feature is one thing that a cloud can do.
type Feature string

// The features, in the order of the reference.
const (
	InstancesFind        Feature = "instances-find"
	InstancesByName      Feature = "instances-by-name"
	InstancesDualStack   Feature = "instances-dual-stack"
	InstancesTopology    Feature = "instances-topology"
	InstancesShutdown    Feature = "instances-shutdown"
	InstancesDeleted     Feature = "instances-deleted"
	InstancesForeignID   Feature = "instances-foreign-id"
	InstancesNewborn     Feature = "instances-newborn"
	InstancesPodCIDRs    Feature = "instances-pod-cidrs"
	LoadBalancerTCP      Feature = "lb-tcp"
	LoadBalancerTraffic  Feature = "lb-traffic"
	LoadBalancerUDP      Feature = "lb-udp"
	LoadBalancerSCTP     Feature = "lb-sctp"
	LoadBalancerHTTP     Feature = "lb-http"
	LoadBalancerTLS      Feature = "lb-tls"
	LoadBalancerPROXY    Feature = "lb-proxy"
	LoadBalancerPROXYv1  Feature = "lb-proxy-v1"
	LoadBalancerSources  Feature = "lb-source-ranges"
	LoadBalancerAffinity Feature = "lb-affinity"
	LoadBalancerLocal    Feature = "lb-local"
	LoadBalancerInternal Feature = "lb-internal"
	LoadBalancerInward   Feature = "lb-internal-later"
	LoadBalancerStatic   Feature = "lb-static-address"
	LoadBalancerHostname Feature = "lb-hostname"
	LoadBalancerIPv6     Feature = "lb-ipv6"
	LoadBalancerDual     Feature = "lb-dual-stack"
	LoadBalancerShared   Feature = "lb-shared"
	LoadBalancerOwn      Feature = "lb-user-owned"
	LoadBalancerPorts    Feature = "lb-ports-change"
	LoadBalancerMembers  Feature = "lb-members-change"
	LoadBalancerFrozen   Feature = "lb-frozen"
	LoadBalancerSame     Feature = "lb-idempotent"
	LoadBalancerGone     Feature = "lb-gone-already"
	LoadBalancerHint     Feature = "lb-delete-hint"
	LoadBalancerAgain    Feature = "lb-made-again"
	LoadBalancerClusters Feature = "lb-same-named-clusters"
	LoadBalancerForeign  Feature = "lb-foreign-objects"
	LoadBalancerCrashNew Feature = "lb-crash-create"
	LoadBalancerCrashSet Feature = "lb-crash-update"
	LoadBalancerCrashDel Feature = "lb-crash-delete"
	RoutesChange         Feature = "routes-change"
	RoutesSame           Feature = "routes-idempotent"
	RoutesForeign        Feature = "routes-foreign"
	RoutesIPv6           Feature = "routes-ipv6"
	RoutesBlackhole      Feature = "routes-blackhole"
	VolumesZone          Feature = "volumes-zone"
	VolumesNotFound      Feature = "volumes-not-found"
	ErrorsDenied         Feature = "errors-denied"
	ErrorsThrottled      Feature = "errors-throttled"
)

// feature is how a Feature is checked.
type feature struct {
	name Feature
	// what is one line for the reference.
	what string
	// alone keeps it from running beside others: it changes what they share.
	alone bool
	// silent features may be lacking without the provider's saying so: there is no wish that
	// it could refuse.
	silent bool
	check  func(*T, *suite)
}

func features() []feature {
	all := append(instanceFeatures(), loadBalancerFeatures()...)
	all = append(all, ownershipFeatures()...)
	all = append(all, routeFeatures()...)
	return append(all, otherFeatures()...)
}

// Features lists the features in order.
func Features() []Feature {
	var out []Feature
	for _, f := range features() {
		out = append(out, f.name)
	}
	return out
}

// Describe is one line on a feature, for the reference.
func Describe(name Feature) string {
	for _, f := range features() {
		if f.name == name {
			return f.what
		}
	}
	return ""
}
