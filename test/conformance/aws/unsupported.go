package aws

import (
	"maps"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// Unsupported is what AWS lacks with load balancers of a kind.
func Unsupported(k Kind) map[cloudtest.Feature]string {
	const (
		owned = "as for the existing manager, a load balancer belongs to one Service"
		ipv4  = "as for the existing manager, classic load balancers are reached by IPv4 alone"
	)
	out := map[cloudtest.Feature]string{
		cloudtest.InstancesPodCIDRs: "EC2 gives instances no addresses for pods that Nodes have",
		cloudtest.RoutesForeign: "routes have no tags at AWS: as for the existing manager, one from a pod CIDR to an instance of the cluster, " +
			"or to one that is gone, is the cluster's; others stay",
		cloudtest.LoadBalancerSCTP:     "load balancers of AWS do not carry SCTP",
		cloudtest.LoadBalancerAffinity: "as for the existing manager, load balancers of AWS keep no client with a Node",
		cloudtest.LoadBalancerInward:   "AWS makes a load balancer internal only when it makes it",
		cloudtest.LoadBalancerHostname: "AWS gives each load balancer its name, which is published",
		cloudtest.LoadBalancerShared:   owned,
		cloudtest.LoadBalancerOwn:      owned,
	}
	maps.Copy(out, map[Kind]map[cloudtest.Feature]string{
		Network: {
			cloudtest.LoadBalancerHTTP:    "network load balancers balance connections, not requests",
			cloudtest.LoadBalancerPROXYv1: "network load balancers speak version 2 of the PROXY protocol alone",
		},
		Classic: {
			cloudtest.LoadBalancerUDP:    "classic load balancers do not carry UDP",
			cloudtest.LoadBalancerPROXY:  "classic load balancers speak version 1 of the PROXY protocol alone",
			cloudtest.LoadBalancerStatic: "AWS chooses the addresses of classic load balancers",
			cloudtest.LoadBalancerIPv6:   ipv4,
			cloudtest.LoadBalancerDual:   ipv4,
		},
	}[k])
	return out
}
