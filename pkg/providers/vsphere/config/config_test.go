package config

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

func noEnv(string) string { return "" }

func prefixes(all ...string) (out Subnets) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestParseEveryKey(t *testing.T) {
	shared := Access{User: "administrator@vsphere.local", Password: cloudauth.NewSecret("p: #1"), Server: "10.0.0.1", Port: "8443", Insecure: true,
		Datacenters: []string{"dc-1", "/folder/dc-2"}, RoundTrips: 3, CAFile: "/etc/ssl/vcenter.pem", Thumbprint: "AA:BB",
		SecretName: "vsphere-cloud-secret", SecretNamespace: "kube-system", IPFamily: []string{"ipv6", "ipv4"}}
	own := Access{User: "a", Password: cloudauth.NewSecret("b"), Server: "10.0.0.2", Port: "443", Insecure: true, Datacenters: []string{"dc-3"},
		CAFile: "/etc/ssl/vcenter.pem", Thumbprint: "AA:BB", SecretName: "own", SecretNamespace: "default", IPFamily: []string{"ipv4"}}
	want := &Config{
		Global: Global{Access: shared, SecretsDirectory: "/etc/secrets", APIDisable: true, APIBinding: ":43001"},
		VCenter: map[string]*VCenter{
			"10.0.0.1": {Access: shared, Name: "10.0.0.1", Families: []Family{IPv6, IPv4}},
			"tenant-a": {Access: own, Name: "tenant-a", Families: []Family{IPv4}},
		},
		Labels: Labels{"k8s-zone", "k8s-region"},
		Nodes: Nodes{Internal: prefixes("10.0.0.0/16", "fd00::/64"), External: prefixes("192.0.2.0/24"), InternalNetwork: "internal", ExternalNetwork: "external",
			ExcludeInternal: prefixes("10.0.1.0/24"), ExcludeExternal: prefixes("192.0.2.1/32")},
	}
	for _, file := range []string{"testdata/every-key.yaml", "testdata/every-key.conf"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, warnings, err := Parse(file, data, noEnv)
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "beside the directory /etc/secrets") {
			t.Fatalf("%q, %v", warnings, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

const (
	least     = "[VirtualCenter \"vc\"]\nuser = u\npassword = s3cret\n"
	leastYAML = "vcenter:\n  a:\n    server: vc\n    user: u\n    password: s3cret\n"
)

func TestDefaults(t *testing.T) {
	for _, conf := range []string{least, leastYAML, "[Global]\nuser = u\npassword = s3cret\nserver = vc\n", "[Global]\nuser = u\npassword = s3cret\n[VirtualCenter \"vc\"]\n"} {
		c, warnings, err := Parse("c", []byte(conf), noEnv)
		if err != nil || len(warnings) > 0 || len(c.VCenter) != 1 {
			t.Fatalf("%q, %v", warnings, err)
		}
		for _, v := range c.VCenter {
			if v.Server != "vc" || v.Port != "443" || v.User != "u" || v.Password.Reveal() != "s3cret" || !cmp.Equal(v.Families, []Family{IPv4}) || v.Insecure {
				t.Errorf("%+v", v)
			}
		}
	}
}

func TestMistakes(t *testing.T) {
	for name, tt := range map[string]struct{ conf, warning, err string }{
		"no vCenter":                {"[Global]\nuser=u\n", "", `c: there is no vCenter; add one: [VirtualCenter "name"] server`},
		"empty":                     {"", "", `c: there is no vCenter; add one: vcenter.name.server`},
		"no user":                   {"[VirtualCenter \"vc\"]\npassword = p\n", "", `c: [VirtualCenter "vc"] user: is required`},
		"no password, YAML":         {"vcenter:\n  a:\n    server: vc\n    user: u\n", "", `c: vcenter.a.password: is required`},
		"no server, YAML":           {"vcenter:\n  a:\n    user: u\n    password: p\n", "", `c: vcenter.a.server: is required`},
		"port":                      {least + "port = 70000\n", "", `c: [VirtualCenter "vc"] port: "70000" is no port`},
		"port, YAML":                {leastYAML + "    port: https\n", "", `c: vcenter.a.port: "https" is no port`},
		"family":                    {least + "ip-family = ipv4, v6\n", "", `c: [VirtualCenter "vc"] ip-family: "v6" is neither ipv4 nor ipv6`},
		"range":                     {least + "[Nodes]\ninternal-network-subnet-cidr = 10.0.0.0\n", "", `c: line 5: [Nodes] internal-network-subnet-cidr: "10.0.0.0" is no range`},
		"one address for two":       {least + "[VirtualCenter \"other\"]\nserver = vc\nuser = u\npassword = p\n", "", `[VirtualCenter "vc"] server: vc:443 is that of [VirtualCenter "other"] server already`},
		"load balancers":            {least + "[LoadBalancer]\ntier1-gateway-path = /infra/tier-1s/a\n", "", `c: [LoadBalancer] tier1-gateway-path: load balancers and routes of NSX-T are not served`},
		"classes of them, YAML":     {leastYAML + "loadBalancerClass:\n  public:\n    ipPoolName: p\n", "", `c: loadBalancer.tier1GatewayPath: load balancers`},
		"routes":                    {leastYAML + "route:\n  routerPath: /infra/tier-1s/a\n", "", `c: route.routerPath: load balancers and routes of NSX-T are not served`},
		"zone alone":                {least + "[Labels]\nzone = z\n", "c: [Labels] zone: Nodes get zones only with both", ""},
		"half a Secret":             {least + "[Global]\nsecret-name = s\n", "c: [Global] secret-name: has no effect without both", ""},
		"half a Secret of its own":  {leastYAML + "    secretName: s\n", "c: vcenter.a.secretName: has no effect without both", ""},
		"not verified":              {least + "insecure-flag = true\n", `c: [VirtualCenter "vc"] insecure-flag: the vCenter's certificate is not verified`, ""},
		"family twice":              {leastYAML + "    ipFamily: [ipv4, IPv4]\n", "c: vcenter.a.ipFamily: ipv4 is there twice", ""},
		"the chart's name of a key": {leastYAML + "    ca-file: /x\n", "c: line 6: unknown key vcenter.a.ca-file; did you mean caFile?; it is ignored", ""},
		"sections of others":        {least + "[Workspace]\nserver = x\n", "c: line 4: unknown section [Workspace]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := Parse("c", []byte(tt.conf), noEnv)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || strings.Join(warnings, "")+tt.warning != "" && !strings.Contains(strings.Join(warnings, "\n"), tt.warning) {
				t.Errorf("%q, %v", warnings, err)
			}
			if tt.warning == "" && len(warnings) > 0 || strings.Contains(strings.Join(warnings, ""), "s3cret") {
				t.Errorf("%q", warnings)
			}
		})
	}
}

// Complaint 597: the password had to be in the ConfigMap.
func TestSecretsInPlaceOfPasswords(t *testing.T) {
	for _, conf := range []string{
		"[VirtualCenter \"vc\"]\nsecret-name = s\nsecret-namespace = n\n", "[Global]\nsecret-name = s\nsecret-namespace = n\n[VirtualCenter \"vc\"]\n",
		"[Global]\nsecrets-directory = /x\n[VirtualCenter \"vc\"]\n",
	} {
		if _, warnings, err := Parse("c", []byte(conf), noEnv); err != nil || len(warnings) > 0 {
			t.Errorf("%q: %q, %v", conf, warnings, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{
		"VSPHERE_USER": "e", "VSPHERE_PASSWORD": "ep", "VSPHERE_LABEL_ZONE": "ez", "VSPHERE_LABEL_REGION": "er", "VSPHERE_VCENTER": "evc", "VSPHERE_VCENTER_PORT": "8443",
		"VSPHERE_DATACENTER": "a,b", "VSPHERE_INSECURE": "1", "VSPHERE_NODES_INTERNAL_NETWORK_SUBNET_CIDR": "10.0.0.0/8", "VSPHERE_NODES_EXTERNAL_VM_NETWORK_NAME": "en",
	}
	getenv := func(name string) string { return env[name] }
	c, _, err := Parse("c", []byte(least+"[Labels]\nzone = z\nregion = r\n"), getenv)
	if err != nil {
		t.Fatal(err)
	}
	if v := c.VCenter["vc"]; v.User != "u" || v.Password.Reveal() != "s3cret" || v.Port != "8443" || !slices.Equal(v.Datacenters, []string{"a", "b"}) || !v.Insecure {
		t.Errorf("what the file has counts before the environment: %+v", v)
	}
	if v := c.VCenter["evc"]; v == nil || v.User != "e" || v.Password.Reveal() != "ep" {
		t.Errorf("the environment's vCenter: %+v", v)
	}
	if c.Labels != (Labels{"ez", "er"}) || !slices.Equal(c.Nodes.Internal, prefixes("10.0.0.0/8")) || c.Nodes.ExternalNetwork != "en" {
		t.Errorf("the environment counts before the file: %+v, %+v", c.Labels, c.Nodes)
	}
	env["SKIP_NODE_DELETION"] = "false" // any value
	if c, warnings, err := Parse("c", []byte(least), getenv); err != nil || !c.Global.KeepNodes || !strings.Contains(strings.Join(warnings, ""), "SKIP_NODE_DELETION is set") {
		t.Errorf("%q, %v", warnings, err)
	}
	env["VSPHERE_NODES_INTERNAL_NETWORK_SUBNET_CIDR"] = "x"
	if _, _, err := Parse("c", []byte(least), getenv); err == nil || !strings.Contains(err.Error(), "VSPHERE_NODES_INTERNAL_NETWORK_SUBNET_CIDR") {
		t.Error(err)
	}
}
