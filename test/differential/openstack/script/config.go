package script

// configGroups have each key of cloud.conf, valid and odd, with the core kinds of Services.
func configGroups() []Group {
	var out []Group
	add := func(name, conf string, more ...Scenario) *Group {
		out = append(out, Group{Name: name, Conf: conf, Nodes: usualNodes(), Joins: third(), Scenarios: append(core(name), more...)})
		return &out[len(out)-1]
	}
	add("c-method", usualConf+"lb-method = LEAST_CONNECTIONS\n", one("c-method-empty", map[string]string{"lb-method": ""}))
	add("c-monitor", usualConf+"create-monitor = true\nmonitor-delay = 60s\nmonitor-timeout = 30s\nmonitor-max-retries = 5\nmonitor-max-retries-down = 4\n",
		one("c-monitor-off", map[string]string{"enable-health-monitor": "false"}), with("c-monitor-udp", udp, nil))
	add("c-monitor-odd", usualConf+"create-monitor = yes\nmonitor-delay = 1m\nmonitor-timeout = 1500ms\nmonitor-max-retries = 0\n")
	add("c-internal", usualConf+"internal-lb = true\n")
	add("c-internal-odd", usualConf+"internal-lb = 1\n")
	add("c-groups", usualConf+"manage-security-groups = true\n")
	add("c-groups-ovn", ovnConf+"manage-security-groups = true\n")
	add("c-cascade", usualConf+"cascade-delete = false\n")
	add("c-hostname", usualConf+"enable-ingress-hostname = true\n", one("c-hostname-own", map[string]string{"hostname": "web.example.org", "proxy-protocol": "v2"}))
	add("c-suffix", usualConf+"enable-ingress-hostname = on\ningress-hostname-suffix = example.org\n")
	add("c-serial", usualConf+"provider-requires-serial-api-calls = true\n")
	add("c-serial-monitor", usualConf+"provider-requires-serial-api-calls = true\ncreate-monitor = true\n")
	add("c-auto-subnet", "[LoadBalancer]\n"+externalConf)
	add("c-network", "[LoadBalancer]\nnetwork-id = {network}\n"+externalConf)
	add("c-network-subnet", "[LoadBalancer]\nnetwork-id = {network}\n"+subnetConf+externalConf)
	add("c-member-subnet", usualConf+"member-subnet-id = {subnet}\n")
	add("c-fsubnet-id", usualConf+"floating-subnet-id = {ext.2}\n", one("c-fsubnet-id-other", map[string]string{"floating-subnet": "public-three"}))
	add("c-fsubnet", usualConf+"floating-subnet = public-t*\n")
	add("c-fsubnet-regex", usualConf+"floating-subnet = \"~public-(two|three)\"\n")
	add("c-fsubnet-tags", usualConf+"floating-subnet-tags = blue\n", one("c-fsubnet-tags-cancel", map[string]string{"floating-subnet-tags": ""}))
	add("c-selector", usualConf+"node-selector = zone=a\n", one("c-selector-all", map[string]string{"node-selector": ""}), one("c-selector-b", map[string]string{"node-selector": "zone=b"}))
	add("c-tls", usualConf+"default-tls-container-ref = {keys}/v1/secrets/{tls}\n", one("c-tls-cancel", map[string]string{"default-tls-container-ref": ""}))
	add("c-tls-external", usualConf+"container-store = external\n", one("c-tls-external-ref", map[string]string{"default-tls-container-ref": "{keys}/v1/secrets/{tls}"}))
	add("c-flavor", usualConf+"flavor-id = 11111111-2222-4333-8444-555555555555\n", one("c-flavor-cancel", map[string]string{"flavor-id": ""}))
	add("c-az", usualConf+"availability-zone = az1\n", one("c-az-cancel", map[string]string{"availability-zone": ""}))
	add("c-unknown", "[BlockStorage]\nbs-version = v3\n"+usualConf+"use-octavia = true\nlb-version = v2\nsomething = else\n[Other]\nkey = value\n")
	add("c-case", "[loadbalancer]\nSUBNET-ID = {subnet}\nFloating-Network-ID = {ext} # the only one\nLB-Provider = octavia\nInternal-LB = FALSE\n")
	add("c-cluster", usualConf).ClusterName = "staging.example-" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	return append(out, classGroups()...)
}

const gold = "\n[LoadBalancerClass \"gold\"]\nfloating-network-id = {ext}\nfloating-subnet-id = {ext.2}\nsubnet-id = {subnet}\nmember-subnet-id = {subnet}\n" +
	"\n[LoadBalancerClass \"tags\"]\nfloating-subnet-tags = blue\n" +
	"\n[LoadBalancerClass \"name\"]\nfloating-subnet = public-three\n" +
	"\n[LoadBalancerClass \"net\"]\nnetwork-id = {network}\n"

// classGroups have sections [LoadBalancerClass].
func classGroups() []Group {
	var picks []Scenario
	for _, c := range []string{"gold", "tags", "name", "net", "Gold", "", "none"} {
		n := c
		switch c {
		case "":
			n = "empty"
		case "Gold":
			n = "upper"
		}
		picks = append(picks, one("k-"+n, map[string]string{"class": c}, addPort()),
			one("k-"+n+"-internal", map[string]string{"class": c, internal: "true"}, addPort()),
			one("k-"+n+"-over", map[string]string{"class": c, "floating-subnet": "public-subnet"}, addPort()),
			one("k-"+n+"-later", nil, annotate("class", c)))
	}
	picks = append(picks, one("k-change", map[string]string{"class": "gold"}, annotate("class", "tags"), annotate("class", "nope")))
	return []Group{
		{Name: "classes", Conf: usualConf + gold, Nodes: usualNodes(), Joins: third(), Scenarios: picks},
		{Name: "class-unnamed", Conf: "[LoadBalancer]\n" + externalConf + "network-id = {network}\n\n[LoadBalancerClass]\nsubnet-id = {subnet}\n", Nodes: usualNodes(), Scenarios: core("class-unnamed")},
	}
}
