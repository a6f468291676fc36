package script

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
)

const (
	local = `{"spec":{"externalTrafficPolicy":"Local","healthCheckNodePort":{health}}}`
	udp   = `{"spec":{"ports":[{"name":"p0","port":53,"protocol":"UDP","nodePort":{port+0}}]}}`
	mixed = `{"spec":{"ports":[{"name":"p0","port":53,"protocol":"UDP","nodePort":{port+0}},{"name":"p1","port":53,"nodePort":{port+1}},{"name":"p2","port":99,"protocol":"SCTP","nodePort":{port+2}}]}}`
)

// core are the kinds of Services that every configuration is tried with.
func core(name string) []Scenario {
	return []Scenario{
		one(name+"-plain", nil, addPort()),
		one(name+"-internal", map[string]string{internal: "true"}, annotate(internal, "false")),
		one(name+"-external", map[string]string{internal: "false"}, annotate(internal, "true")),
		with(name+"-mixed", mixed, nil, patch(udp)),
		with(name+"-local", local, nil, addPort()),
		with(name+"-ranges", `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`, nil, patch(`{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8","192.168.0.0/16"]}}`)),
		one(name+"-proxy", map[string]string{"proxy-protocol": "true"}, remove("proxy-protocol")),
	}
}

// specGroups are what a Service's spec can say, and how Services share a load balancer.
func specGroups() []Group {
	spec := []Scenario{
		with("s-plain", "", nil, addPort(), patch(`{"spec":{"ports":[{"name":"p1","port":443,"nodePort":{port+1}}]}}`)),
		with("s-nodeport", "", nil, patch(`{"spec":{"ports":[{"name":"p0","port":80,"nodePort":{port+5}}]}}`)),
		with("s-port", "", nil, patch(`{"spec":{"ports":[{"name":"p0","port":8080,"nodePort":{port+0}}]}}`)),
		with("s-protocol", "", nil, patch(`{"spec":{"ports":[{"name":"p0","port":80,"protocol":"UDP","nodePort":{port+0}}]}}`)),
		with("s-udp", udp, nil, addPort()),
		with("s-mixed", mixed, nil, patch(udp)),
		with("s-local", local, nil, patch(`{"spec":{"externalTrafficPolicy":"Cluster","healthCheckNodePort":null}}`)),
		with("s-local-later", "", nil, patch(local)),
		with("s-local-monitor", local, map[string]string{"enable-health-monitor": "true"}, annotate("enable-health-monitor", "false")),
		with("s-local-udp", `{"spec":{"externalTrafficPolicy":"Local","healthCheckNodePort":{health},"ports":[{"name":"p0","port":53,"protocol":"UDP","nodePort":{port+0}}]}}`, map[string]string{"enable-health-monitor": "true"}),
		with("s-affinity", `{"spec":{"sessionAffinity":"ClientIP"}}`, nil, patch(`{"spec":{"sessionAffinity":"None"}}`)),
		with("s-affinity-later", "", nil, patch(`{"spec":{"sessionAffinity":"ClientIP"}}`)),
		with("s-ip", `{"spec":{"loadBalancerIP":"{wish-fip.1}"}}`, nil, addPort()),
		with("s-ip-internal", `{"spec":{"loadBalancerIP":"{wish.1}"}}`, map[string]string{internal: "true"}, addPort()),
		with("s-ip-later", "", nil, patch(`{"spec":{"loadBalancerIP":"{wish-fip.2}"}}`)),
		with("s-ip-odd", `{"spec":{"loadBalancerIP":"192.0.2.1"}}`, nil, addPort()),
		with("s-ranges", `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8","10.1.2.3/32"]}}`, nil, patch(`{"spec":{"loadBalancerSourceRanges":null}}`)),
		with("s-ranges-both", `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`, map[string]string{ranges: "192.168.0.0/16"}, patch(`{"spec":{"loadBalancerSourceRanges":null}}`)),
		with("s-class", `{"spec":{"loadBalancerClass":"example.org/other"}}`, nil),
		with("s-type", "", nil, patch(`{"spec":{"type":"ClusterIP","ports":[{"name":"p0","port":80,"nodePort":null}]}}`)),
		with("s-no-nodeport", `{"spec":{"allocateLoadBalancerNodePorts":false,"ports":[{"name":"p0","port":80,"nodePort":null}]}}`, nil),
		with("s-app", `{"spec":{"ports":[{"name":"p0","port":80,"appProtocol":"http","nodePort":{port+0}}]}}`, map[string]string{"x-forwarded-for": "true"}, addPort()),
		with("s-many", manyPorts(7), nil, patch(manyPorts(3))),
		{Name: "s-recreate", Services: []Service{{}}, Steps: []Step{{Delete: true}}},
	}
	return []Group{
		{Name: "spec", Conf: usualConf, Nodes: usualNodes(), Joins: third(), Scenarios: spec},
		{Name: "shared", Conf: usualConf, Nodes: usualNodes(), Joins: third(), Scenarios: shared()},
		{Name: "dual-stack", World: World{DualStack: true}, Conf: usualConf, Nodes: dualNodes(), Joins: &Node{Internal: []string{"{node2}", "{node2.6}"}}, Scenarios: families("d")},
		{Name: "dual-stack-ovn", World: World{DualStack: true}, Conf: ovnConf, Nodes: dualNodes(), Scenarios: families("do")},
	}
}

func dualNodes() []Node {
	return []Node{{Internal: []string{"{node0}", "{node0.6}"}}, {Internal: []string{"{node1.6}", "{node1}"}}}
}

// families are Services of IPv4, IPv6 and both, first on the IPv4 subnet of cloud.conf.
func families(name string) []Scenario {
	single := func(f string) string {
		return fmt.Sprintf(`{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":[%q]}}`, f)
	}
	return []Scenario{
		one(name+"-plain", nil, addPort()),
		with(name+"-4", single("IPv4"), nil, addPort()),
		with(name+"-6", single("IPv6"), map[string]string{"subnet-id": "{subnet6}"}, addPort()),
		with(name+"-6-internal", single("IPv6"), map[string]string{"subnet-id": "{subnet6}", internal: "true"}, addPort()),
		with(name+"-6-wrong", single("IPv6"), nil, addPort()),
		with(name+"-46", `{"spec":{"ipFamilyPolicy":"PreferDualStack"}}`, nil, addPort()),
		with(name+"-46-internal", `{"spec":{"ipFamilyPolicy":"PreferDualStack"}}`, map[string]string{internal: "true"}, addPort()),
		with(name+"-64", `{"spec":{"ipFamilyPolicy":"PreferDualStack","ipFamilies":["IPv6","IPv4"]}}`, map[string]string{"subnet-id": "{subnet6}"}, addPort()),
		with(name+"-46-required", `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`, nil, addPort()),
	}
}

func manyPorts(n int) string {
	var ports []string
	for i := range n {
		ports = append(ports, fmt.Sprintf(`{"name":"p%d","port":%d,"nodePort":{port+%d}}`, i, 80+i, i))
	}
	return `{"spec":{"ports":[` + strings.Join(ports, ",") + `]}}`
}

// shared are Services that name another's load balancer, or one that a user has made.
func shared() []Scenario {
	second := func(annotations map[string]string, port int32) Service {
		a := prefix.All(annotations)
		return Service{Name: "b", Later: true, Annotations: a, Ports: []corev1.ServicePort{{Port: port}}}
	}
	of := func(scenario string) string { return "{lb:kube_service_kubernetes_" + scenario + "_a}" }
	join := func(name string, annotations, more map[string]string, port int32, steps ...Step) Scenario {
		b := map[string]string{"load-balancer-id": of(name)}
		for k, v := range more {
			b[k] = v
		}
		return Scenario{Name: name, Services: []Service{{Annotations: prefix.All(annotations)}, second(b, port)}, Steps: append([]Step{{Service: "b", Create: true}}, steps...)}
	}
	hidden := map[string]string{internal: "true"}
	own := func(name string, fip bool) *snapshot.State {
		s := &snapshot.State{LoadBalancers: []snapshot.Object{{"name": name + "-own", "vip_subnet_id": "{subnet}", "vip_address": "{vip:" + name + "-own}"}}}
		if fip {
			s.FloatingIPs = []snapshot.Object{{"floating_network_id": "{ext}", "description": name, "port_id": "{vipport:" + name + "-own}", "floating_ip_address": "{fip:" + name + "-own}"}}
		}
		return s
	}
	user := func(name string, fip bool, annotations map[string]string) Scenario {
		a := prefix.All(annotations)
		a[prefix.Key("load-balancer-id")] = "{lb:" + name + "-own}"
		return Scenario{Name: name, Given: own(name, fip), Services: []Service{{Annotations: a}}, Steps: []Step{addPort()}}
	}
	return []Scenario{
		join("sh-plain", nil, nil, 81),
		join("sh-first-goes", nil, nil, 81, Step{Delete: true}),
		join("sh-second-goes", nil, nil, 81, Step{Service: "b", Delete: true}),
		join("sh-same-port", nil, nil, 80),
		join("sh-internal", hidden, nil, 81),
		join("sh-both-internal", hidden, hidden, 81),
		join("sh-second-internal", nil, hidden, 81),
		join("sh-owner-turns", nil, nil, 81, annotate(internal, "true")),
		join("sh-second-turns", nil, nil, 81, Step{Service: "b", Patch: annotate(internal, "true").Patch}),
		join("sh-proxy", nil, map[string]string{"proxy-protocol": "true"}, 81),
		join("sh-keep", nil, map[string]string{"keep-floatingip": "true"}, 81, Step{Delete: true}),
		user("sh-own", false, nil),
		user("sh-own-fip", true, nil),
		user("sh-own-internal", false, hidden),
		user("sh-own-proxy", true, map[string]string{"proxy-protocol": "true"}),
	}
}
