package config

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

const (
	idA = "aaaaaaaa-0000-4000-8000-000000000001"
	idB = "bbbbbbbb-0000-4000-8000-000000000002"
)

func diffConfig(want, got any) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(Networking{}), cmpopts.EquateComparable(netip.Prefix{}),
		cmp.Comparer(func(a, b cloudauth.Secret) bool { return a.Equal(b) }))
}

func TestParseConfigDefaults(t *testing.T) {
	for _, text := range []string{"", "[LoadBalancer]\n[Networking]\n"} {
		got, warnings, err := Parse("cloud.conf", []byte(text))
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%v, %v", warnings, err)
		}
		want := &Config{
			LoadBalancer: LoadBalancer{
				Enabled: true, Provider: "amphora", Method: "ROUND_ROBIN", CascadeDelete: true,
				MonitorDelay: Duration(5 * time.Second), MonitorTimeout: Duration(3 * time.Second),
				MonitorMaxRetries: 1, MonitorMaxRetriesDown: 3,
				IngressHostnameSuffix: "nip.io", MaxSharedLB: 2, ContainerStore: "barbican",
			},
			Metadata: Metadata{ConfigDrive: "/mnt/config", ServiceURL: "http://169.254.169.254"},
		}
		if diff := diffConfig(want, got); diff != "" {
			t.Errorf("defaults (-want +got):\n%s", diff)
		}
	}
}

func TestParseConfigEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/every-key.conf")
	if err != nil {
		t.Fatal(err)
	}
	got, warnings, err := Parse("cloud.conf", data)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("%q, %v", warnings, err)
	}
	want := &Config{
		LoadBalancer: LoadBalancer{
			Provider: "octavia", Method: "LEAST_CONNECTIONS", Internal: true, NodeSelector: "role=edge,zone in (a,b)",
			FlavorID: idA, AvailabilityZone: "lb-az", SubnetID: idA, MemberSubnetID: idB, NetworkID: idA, FloatingNetworkID: idB,
			FloatingSubnet: "!~^public-.*$", FloatingSubnetID: idA, FloatingSubnetTags: "a,b", CreateMonitor: true,
			MonitorDelay: Duration(time.Minute), MonitorTimeout: Duration(30 * time.Second), MonitorMaxRetries: 2, MonitorMaxRetriesDown: 10,
			ManageSecurityGroups: true, EnableIngressHostname: true, IngressHostnameSuffix: "lb.example.org", MaxSharedLB: 5,
			ContainerStore: "external", SerialAPICalls: true, DefaultTLSContainerRef: "https://barbican/v1/containers/" + idA,
		},
		LoadBalancerClass: map[string]*LoadBalancerClass{
			"Internet": {FloatingNetworkID: idA, FloatingSubnetID: idB, FloatingSubnet: "public*", FloatingSubnetTags: "x", NetworkID: idA, SubnetID: idB, MemberSubnetID: idA},
			"dmz":      {SubnetID: idB},
		},
		Route:    Route{RouterID: []string{idA}},
		Metadata: Metadata{SearchOrder: "metadataService", RequestTimeout: Duration(2 * time.Second), ConfigDrive: "/media/config", ServiceURL: "http://metadata.example.org", NodeLabelPrefix: "label:"},
		Networking: Networking{
			IPv6SupportDisabled: true, PublicNetworkName: []string{"ext-1", "ext-2"}, InternalNetworkName: []string{"net-1", "net-2"},
			AddressSortOrder: "10.1.0.0/16, 2001:db8::/32",
			sortOrder:        []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")},
		},
		BlockStorage: BlockStorage{IgnoreVolumeAZ: true},
		Registry:     got.Registry, // belongs to the credential provider
	}
	if diff := diffConfig(want.LoadBalancer, got.LoadBalancer); diff != "" {
		t.Errorf("[LoadBalancer] (-want +got):\n%s", diff)
	}
	got.Global = auth.Config{} // tested where it is defined
	if diff := diffConfig(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestParseConfigOVNMethod(t *testing.T) {
	got, warnings, err := Parse("c", []byte("[LoadBalancer]\nlb-provider = ovn\n"))
	if err != nil || len(warnings) > 0 || got.LoadBalancer.Method != "SOURCE_IP_PORT" {
		t.Errorf("provider ovn alone: %+v, %v, %v", got, warnings, err)
	}
	_, warnings, err = Parse("c", []byte("[LoadBalancer]\nlb-provider = ovn\nlb-method = ROUND_ROBIN\n"))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "[LoadBalancer] lb-method: provider ovn refuses ROUND_ROBIN") {
		t.Errorf("provider ovn with ROUND_ROBIN: %v, %v", warnings, err)
	}
}

// Every mistake is reported at once, with file, section and key: what the existing manager does not
// start with is an error, all else a warning.
func TestParseConfigErrors(t *testing.T) {
	data := `[LoadBalancer]
lb-provider = ""
lb-method = FASTEST
node-selector = a in b
subnet-id = my-subnet
floating-subnet = ~(
monitor-delay = 5
monitor-timeout = 1500ms
monitor-max-retries = 0
monitor-max-retries-down = many
max-shared-lb = 0
ingress-hostname-suffix = nip_io
container-store = vault
create-monitor = maybe
[LoadBalancerClass "x"]
network-id = net
floating-subnet = [
[Route]
router-id = r
[Metadata]
search-order = configDrive, disk
request-timeout = -1s
config-drive = config
service-url = 169.254.169.254
[Networking]
address-sort-order = 10.0.0.0/8, 10.0.0.0/40
`
	cfg, warnings, err := Parse("cloud.conf", []byte(data))
	if cfg != nil || err == nil {
		t.Fatalf("got %+v, %v; want an error", cfg, err)
	}
	wantEachOnce(t, err.Error(), "[LoadBalancer] monitor-delay", "[LoadBalancer] monitor-max-retries-down", "[LoadBalancer] create-monitor",
		"[Metadata] search-order", "[Metadata] config-drive", "[Metadata] service-url")
	wantEachOnce(t, strings.Join(warnings, "\n"), "[LoadBalancer] lb-provider", "[LoadBalancer] lb-method", "[LoadBalancer] node-selector", "[LoadBalancer] subnet-id",
		"[LoadBalancer] floating-subnet", "[LoadBalancer] monitor-timeout", "[LoadBalancer] monitor-max-retries:", "[LoadBalancer] max-shared-lb", "[LoadBalancer] ingress-hostname-suffix",
		"[LoadBalancer] container-store", `[LoadBalancerClass "x"] network-id`, `[LoadBalancerClass "x"] floating-subnet`, "[Route] router-id",
		"[Metadata] request-timeout", "[Networking] address-sort-order")
}

// TestNumbersOfMonitorsThatOctaviaRefusesAreTheDefaults: else no Service with a monitor would be served.
func TestNumbersOfMonitorsThatOctaviaRefusesAreTheDefaults(t *testing.T) {
	cfg, warnings, err := Parse("cloud.conf", []byte("[LoadBalancer]\nmonitor-delay=500ms\nmonitor-timeout=0s\nmonitor-max-retries=0\nmonitor-max-retries-down=11\n"))
	if err != nil {
		t.Fatal(err)
	}
	usual := defaultConfig().LoadBalancer
	if lb := cfg.LoadBalancer; lb.MonitorDelay != usual.MonitorDelay || lb.MonitorTimeout != usual.MonitorTimeout ||
		lb.MonitorMaxRetries != usual.MonitorMaxRetries || lb.MonitorMaxRetriesDown != usual.MonitorMaxRetriesDown {
		t.Errorf("got %+v", lb)
	}
	wantEachOnce(t, strings.Join(warnings, "\n"), "monitor-delay: 500ms is not between", "monitor-timeout: 0s is not between", "monitor-max-retries: 0 is not between", "monitor-max-retries-down: 11 is not between")
}

// wantEachOnce fails unless each is in exactly one line, which begins with the file.
func wantEachOnce(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		n := 0
		for line := range strings.Lines(text) {
			if strings.Contains(line, want) {
				n++
				if !strings.HasPrefix(line, "cloud.conf: ") {
					t.Errorf("does not start with the file: %s", line)
				}
			}
		}
		if n != 1 {
			t.Errorf("%d messages about %s, want 1:\n%s", n, want, text)
		}
	}
}

// TestParseConfigOfTheExistingManager: whatever it starts with, so do we.
func TestParseConfigOfTheExistingManager(t *testing.T) {
	for text, warning := range map[string]string{
		"[LoadBalancer]\nlb-provider =\n":                                           "[LoadBalancer] lb-provider",
		"[LoadBalancer]\nlb-provider = f5\n":                                        "",
		"[LoadBalancer]\nlb-version = v2\nuse-octavia = true\n":                     "unknown key [LoadBalancer] use-octavia",
		"[LoadBalancer]\nlb-method = FASTEST\n":                                     "[LoadBalancer] lb-method",
		"[LoadBalancer]\nnode-selector = a in b\n":                                  "[LoadBalancer] node-selector",
		"[LoadBalancer]\nnode-selector = \"disk=ssd, gpu=, edge\"\n":                "",
		"[LoadBalancer]\nfloating-subnet = [\n":                                     "[LoadBalancer] floating-subnet",
		"[LoadBalancer]\nmonitor-delay = 1500ms\n":                                  "counts as 1s",
		"[LoadBalancer]\nmonitor-max-retries = 0\n":                                 "[LoadBalancer] monitor-max-retries",
		"[LoadBalancer]\nmax-shared-lb = 0\n":                                       "[LoadBalancer] max-shared-lb",
		"[LoadBalancer]\ncreate-monitor\n":                                          "",
		"[LoadBalancer]\nCREATE-Monitor = YES\n":                                    "",
		"[LoadBalancer]\ncascade-delete = Off ; comment\n":                          "",
		"[LoadBalancerClass]\nsubnet-id = " + idA + "\n":                            "[LoadBalancerClass]",
		"[loadbalancerclass \"A\"]\n[LoadBalancerClass \"a\"]\n":                    "",
		"[Route]\nrouter-id =\n":                                                    "[Route] router-id",
		"[Metadata]\nsearch-order = configDrive, configDrive\n":                     "stands there twice",
		"[Networking]\npublic-network-name = a\npublic-network-name = \"b\\\"c\"\n": "",
		"[BlockStorage]\nbs-version = auto\n[Unknown \"x\"]\na\n":                   "unknown section [Unknown",
		"[Global \"x\"]\nauth-url = http://x\n":                                     "takes no name",
	} {
		cfg, warnings, err := Parse("cloud.conf", []byte(text))
		if err != nil || cfg == nil {
			t.Errorf("%q: %v", text, err)
		}
		if got := strings.Join(warnings, "\n"); warning == "" && got != "" || !strings.Contains(got, warning) {
			t.Errorf("%q: warnings %q, want %q", text, got, warning)
		}
	}
	cfg, _, err := Parse("cloud.conf", []byte("[LoadBalancerClass]\nsubnet-id = x\n[Route]\nrouter-id =\n[Networking]\naddress-sort-order = nonsense, 10.0.0.0/8\n"))
	if err != nil || cfg.LoadBalancerClass[""].SubnetID != "x" || len(cfg.Route.RouterID) > 0 || len(cfg.Networking.sortOrder) != 1 {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestParseConfigWarnings(t *testing.T) {
	_, warnings, err := Parse("cloud.conf", []byte("[LoadBalancer]\nsubnet-ids = x\nmonitor-timeout = 9s\n[Loadbalancers]\na = b\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"subnet-id", "monitor-timeout", "LoadBalancer"} {
		if !strings.Contains(strings.Join(warnings, "\n"), want) {
			t.Errorf("no warning mentions %s: %q", want, warnings)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	data, err := os.ReadFile("testdata/every-key.conf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("[LoadBalancerClass \"\"]\nsubnet-id=x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, _, err := Parse("cloud.conf", data)
		if (cfg == nil) == (err == nil) {
			t.Errorf("config %v with error %v", cfg, err)
		}
	})
}
