package script

import "github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"

// cloudGroups are what clouds and Nodes can be like.
func cloudGroups() []Group {
	noNetwork := "[LoadBalancer]\n" + subnetConf
	only := func(external ...[]string) []Node {
		var out []Node
		for _, e := range external {
			out = append(out, Node{External: e})
		}
		return out
	}
	return []Group{
		{Name: "n-stuck", World: World{Stuck: true}, Conf: usualConf, Nodes: usualNodes(), Joins: third(), Scenarios: core("n-stuck")},
		{Name: "n-none", World: World{External: -1}, Conf: noNetwork, Nodes: usualNodes(), Scenarios: core("n-none")},
		{Name: "n-one", Conf: noNetwork, Nodes: usualNodes(), Scenarios: append(core("n-one"), one("n-one-subnet", map[string]string{"floating-subnet": "public-two"}))},
		{Name: "n-several", World: World{External: 2}, Conf: noNetwork, Nodes: usualNodes(), Scenarios: append(core("n-several"),
			one("n-several-second", map[string]string{"floating-network-id": "{ext2}"}), one("n-several-first", map[string]string{"floating-network-id": "{ext}"}))},
		{Name: "n-nodes-0", Conf: usualConf, Joins: &Node{Internal: []string{"{node0}"}}, Scenarios: core("n-nodes-0")},
		{Name: "n-external-ip", Conf: usualConf, Nodes: only([]string{"{node0}"}, []string{"{node1}"}), Joins: &Node{External: []string{"{node2}"}}, Scenarios: core("n-external-ip")},
		{Name: "n-external-auto", Conf: "[LoadBalancer]\n" + externalConf, Nodes: only([]string{"{node0}"}, []string{"{node1}"}), Scenarios: core("n-external-auto")},
		{Name: "n-mixed-ip", World: World{DualStack: true}, Conf: usualConf, Nodes: []Node{
			{Internal: []string{"{node0}"}, External: []string{"{node0.6}", "192.0.2.1"}}, {Internal: []string{"{node1.6}"}, External: []string{"{node1}"}}, {External: []string{"{node2.6}"}},
		}, Joins: &Node{Internal: []string{"{node3}"}}, Scenarios: append(core("n-mixed-ip"), families("n-mixed-ip-f")...)},
		{Name: "n-excluded", Conf: usualConf, Nodes: []Node{
			{Internal: []string{"{node0}"}}, {Internal: []string{"{node1}"}, Labels: map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": ""}},
		}, Joins: &Node{Internal: []string{"{node2}"}, Labels: map[string]string{"node.kubernetes.io/exclude-from-external-load-balancers": "false"}}, Scenarios: core("n-excluded")},
		{Name: "n-given", Conf: usualConf, Nodes: usualNodes(), Joins: third(), Scenarios: given()},
	}
}

// given are Services for which there is something in the cloud.
func given() []Scenario {
	freeFIP := func(name, wish string) *snapshot.State {
		return &snapshot.State{FloatingIPs: []snapshot.Object{{"floating_network_id": "{ext}", "description": name, "floating_ip_address": "{" + wish + "}"}}}
	}
	named := func(name, lb string, tags ...any) *snapshot.State {
		o := snapshot.Object{"name": lb, "vip_subnet_id": "{subnet}", "vip_address": "{vip:" + lb + "}"}
		if len(tags) > 0 {
			o["tags"] = tags
		}
		_ = name
		return &snapshot.State{LoadBalancers: []snapshot.Object{o}}
	}
	port := func(name string) *snapshot.State {
		return &snapshot.State{Ports: []snapshot.Object{{"name": name + "-own", "network_id": "{network}"}}}
	}
	of := func(name string, given *snapshot.State, patch string, annotations map[string]string, steps ...Step) Scenario {
		return Scenario{Name: name, Given: given, Services: []Service{{Annotations: prefix.All(annotations), Patch: patch}}, Steps: steps}
	}
	return []Scenario{
		of("g-fip", freeFIP("g-fip", "fip:g-fip"), `{"spec":{"loadBalancerIP":"{fip:g-fip}"}}`, nil, addPort()),
		of("g-fip-later", freeFIP("g-fip-later", "fip:g-fip-later"), "", nil, patch(`{"spec":{"loadBalancerIP":"{fip:g-fip-later}"}}`)),
		of("g-fip-turn", freeFIP("g-fip-turn", "fip:g-fip-turn"), `{"spec":{"loadBalancerIP":"{fip:g-fip-turn}"}}`, nil, annotate(internal, "true"), annotate(internal, "false")),
		of("g-fip-keep", freeFIP("g-fip-keep", "fip:g-fip-keep"), `{"spec":{"loadBalancerIP":"{fip:g-fip-keep}"}}`, map[string]string{"keep-floatingip": "true"}, addPort()),
		of("g-name", named("g-name", "kube_service_kubernetes_g-name_a"), "", nil, addPort()),
		of("g-name-tag", named("g-name-tag", "kube_service_kubernetes_g-name-tag_a", "kube_service_kubernetes_g-name-tag_a"), "", nil, addPort()),
		of("g-port", port("g-port"), "", map[string]string{"port-id": "{port:g-port-own}"}, addPort()),
		of("g-port-internal", port("g-port-internal"), "", map[string]string{"port-id": "{port:g-port-internal-own}", internal: "true"}, addPort()),
	}
}
