package script

import (
	"fmt"

	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// networkServices are Services of network load balancers.
func networkServices() []Group {
	base := notes{"type": "nlb"}
	spec, common, managed := &company{prefix: "n-", base: base}, &company{prefix: "n-", base: base}, &company{prefix: "m-", base: base}
	spec.spec()
	spec.one("to-classic", nil, remove("type"))
	spec.scenarios = append(spec.scenarios, Scenario{Name: "c-to-network", Services: []steps.Service{{}}, Steps: []Step{annotate(base)}})
	for i, t := range []string{"nlb-ip", "external", "NLB", "alb", ""} {
		spec.scenarios = append(spec.scenarios, Scenario{Name: fmt.Sprintf("t-type-%d", i), Services: []steps.Service{{Annotations: prefix.All(notes{"type": t})}}})
	}
	common.common()
	common.groups()
	common.values("allocations", "", nil, "eip-allocations", EIP1+","+EIP2)
	common.odds("allocations", "eip-allocations", EIP1, "")
	common.one("addresses", notes{"internal": "true", "private-ipv4-addresses": "10.0.32.240,10.0.48.240"}, addPort())
	common.odds("addresses", "private-ipv4-addresses", "10.0.0.240")
	common.with("target-attributes-udp", udp, notes{"target-group-attributes": "preserve_client_ip.enabled=false"})
	common.later("allocations", "", notes{"eip-allocations": EIP1 + "," + EIP2})
	common.odds("addresses-empty", "private-ipv4-addresses", "")
	common.one("only-classic", notes{"connection-idle-timeout": "120", "connection-draining-enabled": "true", "connection-draining-timeout": "60",
		"access-log-emit-interval": "5"}, addPort())
	common.odds("idle", "connection-idle-timeout", "1h")
	common.odds("draining", "connection-draining-enabled", "maybe")
	common.odds("draining-timeout", "connection-draining-timeout", "1m")
	common.odds("logs-interval", "access-log-emit-interval", "5m")
	managed.one("plain", nil, addPort())
	managed.with("ranges", ranges, nil, patch(`{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`))
	managed.with("udp", udp, nil)
	managed.one("internal", notes{"internal": "true"})
	managed.values("groups", "", nil, "security-groups", OwnGroup, OwnGroup+","+TwoGroup)
	managed.later("groups", "", notes{"security-groups": OwnGroup})
	managed.values("tags", "", nil, "additional-resource-tags", "a=b", "a=c")
	managed.one("more-groups", notes{"extra-security-groups": OwnGroup})
	shared, closed := networkByConf(base)
	six, sixManaged := networkDualStack(base)
	return []Group{
		{Name: "network-spec", Conf: "[Global]\n", Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: spec.scenarios},
		{Name: "network", Conf: "[Global]\n", Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: common.scenarios},
		{Name: "network-managed", Conf: "[Global]\nNLBSecurityGroupMode = Managed\n", Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: managed.scenarios},
		{Name: "network-shared", Conf: "[Global]\nKubernetesClusterTag = prod\nClusterServiceLoadBalancerHealthProbeMode = Shared\n",
			Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: shared.scenarios},
		{Name: "network-closed", Conf: "[Global]\nDisableSecurityGroupIngress = true\nNLBSecurityGroupMode = Managed\n",
			Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: closed.scenarios},
		{Name: "network-6", World: World{DualStack: true}, Conf: "[Global]\n", Controllers: serviceController, Nodes: dualStack(workers()...),
			Joins: &dualStack(*third())[0], Scenarios: six.scenarios},
		{Name: "network-6-managed", World: World{DualStack: true}, Conf: "[Global]\nNLBSecurityGroupMode = Managed\n", Controllers: serviceController,
			Nodes: dualStack(workers()...), Joins: &dualStack(*third())[0], Scenarios: sixManaged.scenarios},
	}
}

// dualStack gives Nodes' instances addresses of IPv6 that stay.
func dualStack(nodes ...Node) []Node {
	for _, n := range nodes {
		n.Instance.Interfaces[0].IPv6, n.Instance.Interfaces[0].PrimaryIPv6 = []string{"2001:db8:0:b1::" + n.Instance.ID[len(n.Instance.ID)-1:]}, true
	}
	return nodes
}

// networkDualStack are Services with IPv6 in subnets that have it, by default and with security groups of their load balancers' own.
func networkDualStack(base notes) (plain, managed *company) {
	const both, single = `{"spec":{"ipFamilyPolicy":"PreferDualStack"}}`, `{"spec":{"ipFamilyPolicy":"SingleStack"}}`
	plain, managed = &company{prefix: "s-", base: base}, &company{prefix: "sm-", base: base}
	plain.with("both", both, nil, addPort(), patch(single), patch(both))
	plain.with("later", "", nil, patch(both))
	plain.with("required", `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`, nil)
	plain.with("six-first", `{"spec":{"ipFamilyPolicy":"PreferDualStack","ipFamilies":["IPv6","IPv4"]}}`, nil, addPort())
	plain.with("six", `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv6"]}}`, nil, addPort())
	plain.with("udp", `{"spec":{"ipFamilyPolicy":"PreferDualStack","ports":[{"name":"p0","port":53,"protocol":"UDP","nodePort":{port+0}}]}}`, nil)
	plain.with("ranges", both, nil, patch(ranges))
	plain.with("internal", both, notes{"internal": "true"})
	managed.with("both", both, nil, addPort(), patch(single))
	managed.with("ranges", both, nil, patch(`{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8","2001:db8:ffff::/48"]}}`), patch(`{"spec":{"loadBalancerSourceRanges":null}}`))
	return plain, managed
}

// networkByConf are Services on which keys of cloud.conf tell: those of a shared health check, and of groups of Nodes that are left alone.
func networkByConf(base notes) (shared, closed *company) {
	shared, closed = &company{prefix: "h-", base: base}, &company{prefix: "d-", base: base}
	shared.one("plain", nil, addPort())
	shared.with("local", local, nil, patch(global))
	shared.with("ranges", ranges, nil, patch(`{"spec":{"loadBalancerSourceRanges":null}}`))
	shared.with("udp", udp, nil)
	shared.one("check", notes{"healthcheck-protocol": "https", "healthcheck-port": "8080", "healthcheck-path": "/ready"},
		remove("healthcheck-protocol", "healthcheck-port", "healthcheck-path"))
	shared.values("check-interval", "", nil, "healthcheck-interval", "20", "30")
	closed.one("plain", nil, addPort())
	closed.with("ranges", ranges, nil, patch(`{"spec":{"loadBalancerSourceRanges":null}}`))
	return shared, closed
}
