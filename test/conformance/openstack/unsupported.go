package openstack

import "github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"

// Kind is which cloud a World is.
type Kind string

// The kinds of cloud. What they lack is the same but for what a World cannot try.
const (
	Simulator Kind = "simulator"
	Real      Kind = "zed"
)

// Unsupported is what a cloud with an Octavia provider lacks.
func Unsupported(provider string, kind Kind) map[cloudtest.Feature]string {
	out := map[cloudtest.Feature]string{
		cloudtest.InstancesPodCIDRs: "Nova gives servers no addresses for pods",
		cloudtest.RoutesBlackhole:   "a router's routes lead to addresses, and nothing says that nobody has one any more",
	}
	if provider == "ovn" {
		for f, reason := range map[cloudtest.Feature]string{
			cloudtest.LoadBalancerHTTP:    "the ovn driver balances connections, not requests",
			cloudtest.LoadBalancerTLS:     "the ovn driver balances connections, not requests",
			cloudtest.LoadBalancerPROXY:   "the ovn driver does not touch the connections' content",
			cloudtest.LoadBalancerPROXYv1: "the ovn driver does not touch the connections' content",
			cloudtest.LoadBalancerSources: "the ovn driver has no allowed_cidrs",
			cloudtest.LoadBalancerLocal:   "the ovn driver has no HTTP monitors; a TCP check of the node port takes their place",
			cloudtest.LoadBalancerDual:    "the ovn driver of Zed forgets additional VIPs",
		} {
			out[f] = reason
		}
	}
	if kind == Real {
		out[cloudtest.LoadBalancerTraffic] = "not tried: nothing answers on the servers"
		out[cloudtest.ErrorsThrottled] = "nothing in a plain OpenStack limits the rate of requests"
	}
	return out
}
