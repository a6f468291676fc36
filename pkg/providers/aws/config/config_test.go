package config

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
)

func TestParseDefaults(t *testing.T) {
	for _, conf := range []string{"", "[Global]\n", "[Global]\nClusterServiceLoadBalancerHealthProbeMode =\nClusterServiceSharedLoadBalancerHealthProbePath =\n" +
		"ClusterServiceSharedLoadBalancerHealthProbePort = 0\nSupportedTopologyInstanceTypePattern =\nNodeIPFamilies\n"} {
		got, warnings, err := Parse("cloud.conf", []byte(conf))
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v, %v", warnings, err)
		}
		want := &Config{Global: Global{NodeIPFamilies: []string{"ipv4"}, HealthProbeMode: "ServiceNodePort", SharedHealthProbePort: 10256,
			SharedHealthProbePath: "/healthz", TopologyPattern: topologyTypes}}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Global{})); diff != "" {
			t.Errorf("defaults (-want +got):\n%s", diff)
		}
		for name, want := range map[string]bool{"p5.48xlarge": true, "trn1n.32xlarge": true, "hpc7g.4xlarge": true, "p5en-x.48xlarge": true, "m5.large": false, "xp5.large": false, "": false} {
			if got.Global.HasTopology(name) != want {
				t.Errorf("the network topology of %s is known: %t, want %t", name, !want, want)
			}
		}
		if got.Global.Role() != nil || got.Global.ClusterID() != "" || got.Override(EC2, "") != nil {
			t.Errorf("of no keys: %+v", got)
		}
	}
}

func TestParseEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/every-key.conf")
	if err != nil {
		t.Fatal(err)
	}
	got, warnings, err := Parse("cloud.conf", data)
	if err != nil || !cmp.Equal(warnings, []string{`cloud.conf: [ServiceOverride "1"] SigningMethod: has no effect: requests have version 4 of AWS' signatures`}) {
		t.Fatalf("%q, %v", warnings, err)
	}
	want := &Config{
		Global: Global{
			Zone: "eu-central-1a", Region: "eu-central-1", VPC: "vpc-0123456789abcdef0", SubnetID: "subnet-0123456789abcdef0", RouteTableID: "rtb-0123456789abcdef0",
			RoleARN: "arn:aws:iam::123456789012:role/controllers", SourceARN: "arn:aws:eks:eu-central-1:210987654321:cluster/c", KubernetesClusterTag: "c", KubernetesClusterID: "c",
			DisableSGIngress: true, ElbSecurityGroup: "sg-0123456789abcdef0", NodeIPFamilies: []string{"ipv6", "ipv4"}, HealthProbeMode: "Shared", SharedHealthProbePort: 8080,
			SharedHealthProbePath: "/ready", TopologyPattern: "^p5", NLBSecurityGroupMode: "Managed",
		},
		ServiceOverride: map[string]*ServiceOverride{
			"1": {Service: "EC2", Region: "eu-central-1", URL: "https://ec2.example.com", SigningRegion: "eu-central-1", SigningMethod: "v4", SigningName: "ec2"},
			"2": {Service: "ec2imds", Region: "any", URL: "http://127.0.0.1:8080", SigningRegion: "any"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Global{})); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	wantRole := &auth.Role{ARN: want.Global.RoleARN, SourceARN: want.Global.SourceARN, SourceAccount: "123456789012"}
	if diff := cmp.Diff(wantRole, got.Global.Role()); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}
	if got.Override(EC2, "eu-central-1") != got.ServiceOverride["1"] || got.Override(EC2, "eu-west-1") != nil || got.Override(Metadata, "eu-west-1") != got.ServiceOverride["2"] {
		t.Error("overrides are for the wrong regions")
	}
	if !got.Global.HasTopology("p5.48xlarge") || got.Global.HasTopology("p4d.24xlarge") || got.Global.ClusterID() != "c" {
		t.Errorf("%+v", got.Global)
	}
}

func TestParseRegionOfZone(t *testing.T) {
	for conf, want := range map[string]string{
		"Zone = eu-central-1a": "eu-central-1", "Zone = us-west-2-lax-1a": "us-west-2", "Zone = us-gov-west-1b\nRegion = us-gov-west-1": "us-gov-west-1", "Region = eu-west-1": "eu-west-1",
	} {
		got, warnings, err := Parse("c", []byte("[Global]\n"+conf))
		if err != nil || len(warnings) > 0 || got.Global.Region != want {
			t.Errorf("%s: %+v, %q, %v", conf, got, warnings, err)
		}
	}
}

func TestParseErrorsNameFileSectionAndKey(t *testing.T) {
	const override = "[ServiceOverride \"1\"]\nService = EC2\nRegion = r\nURL = https://e\nSigningRegion = r\n"
	for conf, want := range map[string][]string{
		"[Global]\nZone = eu":   {`c: [Global] Zone: "eu" is no availability zone, such as eu-central-1a`},
		"[Global]\nRegion = EU": {`c: [Global] Region: "EU" is no AWS region, such as eu-central-1`},
		"[Global]\nRoleARN = x": {`c: [Global] RoleARN: "x" is no ARN of an IAM role`},
		"[Global]\nRoleARN = arn:aws:iam::123456789012:role/r\nSourceARN = x":         {`c: [Global] SourceARN: "x" is no ARN with an account`},
		"[Global]\nKubernetesClusterTag = a\nKubernetesClusterID = b":                 {`c: [Global] KubernetesClusterTag: "a" is another cluster than KubernetesClusterID "b"`},
		"[Global]\nDisableSecurityGroupIngress = maybe":                               {`c: line 2: [Global] DisableSecurityGroupIngress: "maybe" is neither true nor false`},
		"[Global]\nNodeIPFamilies = ipv4,ipv6":                                        {`c: [Global] NodeIPFamilies: "ipv4,ipv6" is neither ipv4 nor ipv6; give two families in two lines`},
		"[Global]\nClusterServiceLoadBalancerHealthProbeMode = shared":                {`c: [Global] ClusterServiceLoadBalancerHealthProbeMode: "shared" is neither ServiceNodePort nor Shared`},
		"[Global]\nClusterServiceSharedLoadBalancerHealthProbePort = 65536":           {"c: [Global] ClusterServiceSharedLoadBalancerHealthProbePort: 65536 is no port"},
		"[Global]\nClusterServiceSharedLoadBalancerHealthProbePath = healthz":         {`c: [Global] ClusterServiceSharedLoadBalancerHealthProbePath: "healthz" does not begin with /`},
		"[Global]\nSupportedTopologyInstanceTypePattern = (":                          {"c: [Global] SupportedTopologyInstanceTypePattern: error parsing regexp"},
		"[Global]\nNLBSecurityGroupMode = managed":                                    {`c: [Global] NLBSecurityGroupMode: "managed" is neither empty nor Managed`},
		"[ServiceOverride \"x\"]\nService = \" \"\nURL = https://e":                   {`c: [ServiceOverride "x"] Service: is required`, `c: [ServiceOverride "x"] Region: is required`, `c: [ServiceOverride "x"] SigningRegion: is required`},
		override + strings.Replace(override, `"1"`, `"2"`, 1):                         {`c: [ServiceOverride "2"] Service: EC2 in r has another endpoint in [ServiceOverride "1"] already; remove one`},
		strings.Replace(override, "https://e", "ec2.example.com", 1):                  {`c: [ServiceOverride "1"] URL: not a URL such as https://`},
		"[Global]\nRegion = EU\nNLBSecurityGroupMode = x\nNodeIPFamilies = both\nx=1": {"[Global] Region", "[Global] NLBSecurityGroupMode", "[Global] NodeIPFamilies"},
	} {
		cfg, _, err := Parse("c", []byte(conf))
		if cfg != nil || err == nil {
			t.Errorf("%q: %+v, %v", conf, cfg, err)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v, want %s", conf, err, w)
			}
		}
		if len(lines) != len(want) {
			t.Errorf("%q: %d errors, want %d: %v", conf, len(lines), len(want), err)
		}
	}
}

func TestParseWarnings(t *testing.T) {
	for conf, want := range map[string]string{
		"[Global]\nZone = eu-west-1a\nRegion = eu-west-2":        "c: [Global] Region: has no effect: eu-west-1 is the region of Zone eu-west-1a",
		"[Global]\nRegoin = x":                                   "c: line 2: unknown key [Global] Regoin; did you mean region?; it is ignored",
		"[Globel]\nRegion = x":                                   "c: line 1: unknown section [Globel]; did you mean [Global]? it is ignored",
		"[Global]\nSourceARN = x":                                "c: [Global] SourceARN: has no effect without RoleARN",
		"[Global]\nVPC = main":                                   `c: [Global] VPC: "main" does not begin with vpc-`,
		"[Global]\nSubnetID = main":                              `c: [Global] SubnetID: "main" does not begin with subnet-`,
		"[Global]\nRouteTableID = main":                          `c: [Global] RouteTableID: "main" does not begin with rtb-`,
		"[Global]\nElbSecurityGroup = main":                      `c: [Global] ElbSecurityGroup: "main" does not begin with sg-`,
		"[Global]\nNodeIPFamilies = ipv4\nNodeIPFamilies = ipv4": "c: [Global] NodeIPFamilies: ipv4 is there twice",
		"[Global]\nVPC = vpc-1\nVPC = vpc-2":                     "c: line 3: [Global] VPC is given again",
		"[ServiceOverride]\nService = ec2\nRegion = r\nURL = https://e\nSigningRegion = r":                                     `c: [ServiceOverride ""] Service: "ec2" has no effect; it is one of EC2, Elastic Load Balancing, `,
		"[ServiceOverride \"1\"]\nService = KMS\nRegion = r\nURL = https://e\nSigningRegion = r":                               `c: [ServiceOverride "1"] Service: has no effect: KMS is never asked`,
		"[Global]\nRegion = eu-west-1\n[ServiceOverride \"1\"]\nService = EC2\nRegion = r\nURL = https://e\nSigningRegion = r": `c: [ServiceOverride "1"] Region: r is not the cluster's region eu-west-1: the section has no effect`,
	} {
		cfg, warnings, err := Parse("c", []byte(conf))
		if cfg == nil || err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], want) {
			t.Errorf("%q: %q, %v; want %s", conf, warnings, err, want)
		}
	}
}
