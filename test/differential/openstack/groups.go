package openstack

import (
	corev1 "k8s.io/api/core/v1"
)

// prefix is that of OCCM's annotations, internal the one without it.
const (
	prefix   = "loadbalancer.openstack.org/"
	internal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	ranges   = corev1.AnnotationLoadBalancerSourceRangesKey
)

const (
	subnetConf   = "subnet-id = {subnet}\n"
	externalConf = "floating-network-id = {ext}\n"
	usualConf    = "[LoadBalancer]\n" + subnetConf + externalConf
)

// usualNodes are two Nodes with an InternalIP each.
func usualNodes() []Node {
	return []Node{{Internal: []string{"{node0}"}}, {Internal: []string{"{node1}"}}}
}

// one is a scenario of one Service with annotations; their names lack the prefix unless they have a slash.
func one(name string, annotations map[string]string, steps ...Step) Scenario {
	return Scenario{Name: name, Services: []Service{{Annotations: prefixed(annotations)}}, Steps: steps}
}

func prefixed(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range annotations {
		out[key(k)] = v
	}
	return out
}

// Groups are all scenarios, in a fixed order.
func Groups() []Group {
	return []Group{
		{Name: "first", Conf: usualConf, Nodes: usualNodes(), Joins: &Node{Internal: []string{"{node2}"}}, Scenarios: []Scenario{
			one("plain", nil),
			one("internal", map[string]string{internal: "true"}, annotate(internal, "false")),
			one("internal-odd", map[string]string{internal: "True"}),
			one("timeout", map[string]string{"timeout-client-data": "1000"}, annotate("timeout-client-data", "50s")),
			one("proxy", map[string]string{"proxy-protocol": "true"}, annotate("proxy-protocol", "v2")),
			one("xff", map[string]string{"x-forwarded-for": "true"}),
			one("ports", nil, patch(`{"spec":{"ports":[{"name":"p0","port":8080,"nodePort":{port+0}},{"name":"p1","port":53,"protocol":"UDP","nodePort":{port+1}}]}}`)),
			one("ranges", map[string]string{ranges: "10.0.0.0/8,192.168.0.0/16"}),
		}},
	}
}
