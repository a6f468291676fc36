package script

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// prefix is that of OCCM's annotations, internal the one without it.
const (
	prefix   = steps.Prefix("loadbalancer.openstack.org/")
	internal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	ranges   = corev1.AnnotationLoadBalancerSourceRangesKey
)

const (
	subnetConf   = "subnet-id = {subnet}\n"
	externalConf = "floating-network-id = {ext}\n"
	usualConf    = "[LoadBalancer]\n" + subnetConf + externalConf
	ovnConf      = usualConf + "lb-provider = ovn\nlb-method = SOURCE_IP_PORT\n"
)

// usualNodes are two Nodes with an InternalIP each, in zones a and b.
func usualNodes() []Node {
	return []Node{
		{Internal: []string{"{node0}"}, Labels: map[string]string{"zone": "a", "disk": "fast"}},
		{Internal: []string{"{node1}"}, Labels: map[string]string{"zone": "b"}},
	}
}

func third() *Node {
	return &Node{Internal: []string{"{node2}"}, Labels: map[string]string{"zone": "a"}}
}

// one is a scenario of one Service with annotations.
func one(name string, annotations map[string]string, steps ...Step) Scenario {
	return Scenario{Name: name, Services: []Service{{Annotations: prefix.All(annotations)}}, Steps: steps}
}

// with is one whose Service is patched.
func with(name, patch string, annotations map[string]string, steps ...Step) Scenario {
	return Scenario{Name: name, Services: []Service{{Annotations: prefix.All(annotations), Patch: patch}}, Steps: steps}
}

// Groups are all scenarios, in a fixed order.
func Groups() []Group {
	return slices.Concat(annotationGroups(), specGroups(), configGroups(), cloudGroups(), randomGroups())
}

// annotationGroups have each annotation with valid values one after the other, and each odd value.
func annotationGroups() []Group {
	var valid, odd, ovn, health []Scenario
	for _, v := range vocabulary() {
		valid = append(valid, sequence("v-"+v.short, v, nil)...)
		odd = append(odd, odds("o-"+v.short, v, nil)...)
		if v.ovn {
			ovn = append(ovn, sequence("ovn-"+v.short, v, nil)...)
			ovn = append(ovn, odds("ovn-"+v.short+"-o", value{v.name, v.short, nil, v.odd[:1], true}, nil)...)
		}
	}
	ovn = append(ovn, one("ovn-plain", nil, addPort()), one("ovn-xff", map[string]string{"x-forwarded-for": "true"}, addPort()),
		one("ovn-proxy", map[string]string{"proxy-protocol": "true"}, addPort()), one("ovn-client", map[string]string{"timeout-client-data": "1000"}, addPort()),
		with("ovn-affinity", `{"spec":{"sessionAffinity":"ClientIP"}}`, nil, addPort()), with("ovn-local", `{"spec":{"externalTrafficPolicy":"Local","healthCheckNodePort":{health}}}`, nil, addPort()))
	for _, v := range monitors() {
		on := map[string]string{"enable-health-monitor": "true"}
		health = append(health, sequence("h-"+v.short, v, on)...)
		health = append(health, odds("h-"+v.short+"-o", v, on)...)
	}
	return []Group{
		{Name: "annotations", Conf: usualConf, Nodes: usualNodes(), Joins: third(), Scenarios: valid},
		{Name: "odd-annotations", Conf: usualConf, Nodes: usualNodes(), Joins: third(), Scenarios: odd},
		{Name: "ovn", Conf: ovnConf, Nodes: usualNodes(), Joins: third(), Scenarios: ovn},
		{Name: "monitors", Conf: usualConf, Nodes: usualNodes(), Joins: third(), Scenarios: health},
	}
}

// sequence is a scenario that sets valid values one after the other, and then none.
func sequence(name string, v value, beside map[string]string) []Scenario {
	if len(v.valid) == 0 {
		return nil
	}
	s := one(name, beside)
	s.Services[0].Annotations[prefix.Key(v.name)] = v.valid[0]
	for _, x := range v.valid[1:] {
		s.Steps = append(s.Steps, annotate(v.name, x))
	}
	s.Steps = append(s.Steps, remove(v.name))
	return []Scenario{s}
}

// odds is a scenario for each odd value; then a port is added, which must be served.
func odds(name string, v value, beside map[string]string) []Scenario {
	var out []Scenario
	for i, x := range v.odd {
		s := one(fmt.Sprintf("%s-%d", name, i), beside, addPort())
		s.Services[0].Annotations[prefix.Key(v.name)] = x
		out = append(out, s)
	}
	return out
}
