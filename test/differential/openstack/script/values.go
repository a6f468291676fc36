package script

// value is an annotation with what users write into it.
type value struct {
	// name is the annotation's, without OCCM's prefix; short names scenarios.
	name, short string
	// valid values follow one another on one Service; each odd one has a Service of its own.
	valid, odd []string
	// ovn says that it means something to Octavia's ovn driver, too.
	ovn bool
}

// oddNumbers and oddSwitches are what is no number and no boolean to OCCM, or an unusual one.
func oddNumbers() []string  { return []string{"50s", "", " 7", "1.5", "-1", "0", "x"} }
func oddSwitches() []string { return []string{"True", "1", "", "yes", "FALSE"} }

// vocabulary is every annotation that OCCM knows.
func vocabulary() []value {
	return []value{
		{internal, "internal", []string{"true", "false", "true"}, oddSwitches(), true},
		{"connection-limit", "limit", []string{"100", "2000"}, oddNumbers(), true},
		{"timeout-client-data", "client", []string{"1000", "60000"}, oddNumbers(), false},
		{"timeout-member-connect", "connect", []string{"1000", "6000"}, oddNumbers()[:3], false},
		{"timeout-member-data", "data", []string{"1000", "60000"}, oddNumbers()[:3], false},
		{"timeout-tcp-inspect", "inspect", []string{"10", "20"}, oddNumbers()[:3], false},
		{"x-forwarded-for", "xff", []string{"true"}, append(oddSwitches(), "false"), false},
		{"proxy-protocol", "proxy", []string{"true", "v2", "v1"}, append(oddSwitches(), "V2", "false"), false},
		{"lb-method", "method", []string{"LEAST_CONNECTIONS", "SOURCE_IP", "ROUND_ROBIN"}, []string{"", "round_robin", "x", "SOURCE_IP_PORT"}, true},
		{"node-selector", "selector", []string{"zone=a", "zone", "zone=b"}, []string{"", "zone=", "zone==a", "zone!=a", ",,", " zone = a , disk", "x"}, true},
		{"enable-health-monitor", "monitor", []string{"true", "false", "true"}, oddSwitches(), true},
		{"keep-floatingip", "keep", []string{"true", "false", "true"}, oddSwitches(), true},
		{"flavor-id", "flavor", nil, []string{"", "x"}, true},
		{"availability-zone", "az", nil, []string{"", "x"}, true},
		{"floating-network-id", "fnet", []string{"{ext}"}, []string{"", "public", "{network}"}, true},
		{"floating-subnet-id", "fsubid", []string{"{ext.2}", "{ext.3}"}, []string{"", "{subnet}", "x"}, true},
		{"floating-subnet", "fsub", []string{"public-two"}, []string{"", "public-t*", "~public-t.*", "!public-two", "!~public-t.*", "~pub|public-two", "{public-two,x}", "~(", "none"}, false},
		{"floating-subnet-tags", "ftags", []string{"blue"}, []string{"", "red,blue", "&red,blue", "!red", "!&red,blue", "!red,blue", "red blue", "none"}, false},
		{"subnet-id", "subnet", []string{"{subnet}"}, []string{"", "x", "{ext.1}"}, true},
		{"network-id", "network", []string{"{network}"}, []string{"", "x"}, true},
		{"member-subnet-id", "msubnet", []string{"{subnet}"}, []string{"", "x"}, true},
		{"class", "class", nil, []string{"", "nope"}, true},
		{"load-balancer-id", "lbid", nil, []string{"", "x", "11111111-2222-4333-8444-555555555555"}, true},
		{"load-balancer-address", "address", nil, []string{"", "192.0.2.1"}, true},
		{"port-id", "port", nil, []string{"", "x", "11111111-2222-4333-8444-555555555555"}, true},
		{"hostname", "hostname", []string{"web.example.org", "www.example.org"}, []string{"", "not a name"}, true},
		{"default-tls-container-ref", "tls", []string{"{keys}/v1/secrets/{tls}", "{keys}/v1/secrets/{tls2}"}, []string{"", "x", "http://keys/v1/secrets/11111111-2222-4333-8444-555555555555"}, false},
		{ranges, "ranges", []string{"10.0.0.0/8", "10.0.0.0/8,192.168.0.0/16"}, []string{"", " 10.0.0.0/8 , 192.168.0.0/16", "fd00::/8"}, true},
	}
}

// monitors are the annotations of health monitors, which mean something only where there is one.
func monitors() []value {
	return []value{
		{"health-monitor-delay", "delay", []string{"10", "20"}, []string{"10s", "", "0", "-1", "2"}, true},
		{"health-monitor-timeout", "timeout", []string{"4", "2"}, []string{"4s", "", "0", "60"}, true},
		{"health-monitor-max-retries", "retries", []string{"3", "5"}, []string{"x", "", "0", "11"}, true},
		{"health-monitor-max-retries-down", "down", []string{"2", "4"}, []string{"x", "", "0", "11"}, true},
	}
}
