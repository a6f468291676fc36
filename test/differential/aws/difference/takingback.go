package difference

import (
	"slices"

	"github.com/isthmus-cloud/isthmus/test/differential/compare"
)

// TakingBack is all that the existing manager does when it is started on what ours has left, Services aside that it cannot serve.
func TakingBack() []compare.Exception {
	return slices.Concat(ofDualStackBack(), []compare.Exception{
		{
			Name: "what it writes each time",
			What: "Of classic load balancers it writes the attributes, the tags of `additional-resource-tags` and the TLS policy again, with the values that they have.",
			Why:  "It does so at each look, also at what it has made itself.",
			Match: `(c-[a-z0-9-]+|t-type-[2-4]), [a-z0-9 ]+: elb (ModifyLoadBalancerAttributes LoadBalancerAttributes\.|AddTags LoadBalancerNames\.` +
				`|SetLoadBalancerPoliciesOfListener .*PolicyNames\.member\.1:k8s-SSLNegotiationPolicy-).*`,
		},
		{
			Name: "what it writes each time, of network load balancers",
			What: "Of network load balancers it writes the path of a health check, and a listener of TLS, again with the values that they have.",
			Why:  "As above.",
			Match: `[nmh]-[a-z0-9-]+, [a-z0-9 ]+: elbv2 ModifyTargetGroup HealthCheckPath:\S+ TargetGroupArn:\{group:\S+ \S+\}` +
				`|n-(backend-ssl|certificate|ssl-policy|ssl-ports)[a-z-]*, [a-z0-9 ]+: elbv2 ModifyListener Certificates\..*`,
		},
		{
			Name: "tags that say whose a load balancer is",
			What: "It writes a tag of `additional-resource-tags` over the one by which a load balancer is known.",
			Why:  "It leaves that to the annotation. Isthmus leaves such tags out, and refuses a load balancer that another Service is named at.",
			Match: `c-tags-odd-3, [a-z0-9 ]+: (classic\.\S+\.(tags\.kubernetes\.io/service-name|instances\.\S+|listeners\.443): .*` +
				`|ec2 AuthorizeSecurityGroupIngress .*|elb (CreateLoadBalancerListeners|(Der|R)egisterInstances(From|With)LoadBalancer) .*|sg\.\S+\.rules\.tcp 443-443 .*)`,
		},
		{
			Name:  "Nodes of Fargate",
			What:  "It initializes Nodes of Fargate, and writes their addresses.",
			Why:   "Isthmus leaves them alone.",
			Match: `fargate-[a-z-]+, create: node\..*\.(addresses|labels|taints): .*`,
		},
		{
			Name:  "finalizers of what it does not serve",
			What:  "A Service of the type `nlb-ip` or `external` gets the finalizer of cloud controllers.",
			Why:   "It gives it to every Service of type LoadBalancer, before it finds that another controller serves it.",
			Match: `(t-type-[01]|n-left-before), create: service\.a\.finalizers: was , is \{"service\.kubernetes\.io/load-balancer-cleanup":true\}`,
		},
	})
}
