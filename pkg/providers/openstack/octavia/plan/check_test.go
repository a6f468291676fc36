package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// TestCheckIsWhatEnsureDoes goes through all combinations of what a Service may want: the check
// without a cloud refuses just what Ensure does before it asks the cloud, in the same words.
func TestCheckIsWhatEnsureDoes(t *testing.T) {
	type choice struct {
		name   string
		change func(*cloud.LoadBalancerSpec)
	}
	set := func(name, value string) choice {
		return choice{name + "=" + value, func(s *cloud.LoadBalancerSpec) { s.Settings[name] = value }}
	}
	ranges := func(items ...string) choice {
		return choice{strings.Join(items, ","), func(s *cloud.LoadBalancerSpec) {
			for _, i := range items {
				s.SourceRanges = append(s.SourceRanges, netip.MustParsePrefix(i))
			}
		}}
	}
	families := func(f ...corev1.IPFamily) choice {
		return choice{fmt.Sprint(f), func(s *cloud.LoadBalancerSpec) { s.IPFamilies = f }}
	}
	none := choice{"", func(*cloud.LoadBalancerSpec) {}}
	choices := [][]choice{
		{none, set(AnnProxyProtocol, "v1"), set(AnnProxyProtocol, "false")},
		{none, set(AnnForwardedFor, "true")},
		{none, set(AnnMethod, config.MethodSourceIPPort), set(AnnMethod, config.MethodRoundRobin)},
		{none, set(AnnClass, "silver"), set(AnnClass, "gold")},
		{none, ranges("10.0.0.0/8"), ranges("10.0.0.0/8", "2001:db8::/32"), ranges("2001:db8::/32")},
		{families(corev1.IPv4Protocol), families(corev1.IPv6Protocol, corev1.IPv4Protocol), families(corev1.IPv4Protocol, corev1.IPv6Protocol)},
		{none, set(AnnPortID, diffID)},
		{none, {"an address", func(s *cloud.LoadBalancerSpec) { s.LoadBalancerIP = netip.MustParseAddr("203.0.113.7") }}},
	}
	const class = "[LoadBalancerClass \"silver\"]\n"
	configs := []*config.Config{
		wishesConfig(t, class), wishesConfig(t, "[LoadBalancer]\nlb-provider=ovn\n"+class),
		wishesConfig(t, "[LoadBalancer]\nlb-provider=ovn\nmanage-security-groups=true\n"+class), wishesConfig(t, "[LoadBalancer]\nlb-provider=another\n"+class),
	}
	refused, total := 0, 0
	var each func(rest [][]choice, chosen []choice)
	each = func(rest [][]choice, chosen []choice) {
		if len(rest) > 0 {
			for _, c := range rest[0] {
				each(rest[1:], append(slices.Clone(chosen), c))
			}
			return
		}
		for _, cfg := range configs {
			spec := wishesSpec(cloud.Settings{}, func(s *cloud.LoadBalancerSpec) {
				for _, c := range chosen {
					c.change(s)
				}
			})
			want := ensureRefuses(spec, cfg)
			bare := *spec // as the webhook has it
			bare.Cluster, bare.Members, bare.UID = cloud.Cluster{}, nil, ""
			problems, _ := Check(cfg, &bare)
			var got []string
			for _, p := range problems {
				got = append(got, p.Error())
			}
			if !cmp.Equal(want, got) {
				t.Fatalf("%v with provider %s: Ensure refuses\n%q, the check\n%q", chosen, cfg.LoadBalancer.Provider, want, got)
			}
			if total++; len(got) > 0 {
				refused++
			}
		}
	}
	each(choices, nil)
	if total < 5_000 || refused < total/10 || refused > total*19/20 {
		t.Errorf("%d of %d refused: this test shows little", refused, total)
	}
}

const diffID = "01234567-89ab-cdef-0123-456789abcdef"

// ensureRefuses is what Ensure refuses of a new load balancer before it is made, all at once.
func ensureRefuses(spec *cloud.LoadBalancerSpec, cfg *config.Config) []string {
	var out []string
	add := func(err error) {
		if err == nil {
			return
		}
		_, text, _ := strings.Cut(err.Error(), ": ")
		out = append(out, strings.Split(text, "\n")...)
	}
	_, err := Resolve(spec, cfg)
	add(err)
	_, err = resolve(spec, cfg).Lacks(cfg.LoadBalancer.Provider)
	add(err)
	return out
}

// TestCheckOfExisting: what a load balancer that there is may well be able to do is not refused.
func TestCheckOfExisting(t *testing.T) {
	cfg := wishesConfig(t, "[LoadBalancer]\nlb-provider=ovn\n")
	for name, exists := range map[string]func(*cloud.LoadBalancerSpec){
		"its ID":      func(s *cloud.LoadBalancerSpec) { s.Settings[AnnLoadBalancerID] = diffID },
		"its address": func(s *cloud.LoadBalancerSpec) { s.Settings[AnnAddress] = "203.0.113.7" },
		"the status":  func(s *cloud.LoadBalancerSpec) { s.CurrentIngress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}} },
	} {
		spec := wishesSpec(cloud.Settings{AnnProxyProtocol: "v1"}, exists)
		problems, warnings := Check(cfg, spec)
		if len(problems) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], "(unless the load balancer that there is can do it)") {
			t.Errorf("known by %s: problems %v, warnings %q", name, problems, warnings)
		}
		spec.Settings[AnnForwardedFor] = "true" // contradicts itself on any
		if problems, _ := Check(cfg, spec); len(problems) != 1 {
			t.Errorf("known by %s: problems %v of a contradiction", name, problems)
		}
	}
}

// TestCheckOfManyRanges: each port and range is a rule where security groups restrict clients.
func TestCheckOfManyRanges(t *testing.T) {
	spec := wishesSpec(cloud.Settings{}, func(s *cloud.LoadBalancerSpec) {
		for i := range MaxGroupRules/2 + 1 { // of two ports
			s.SourceRanges = append(s.SourceRanges, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32))
		}
	})
	for conf, want := range map[string]int{"lb-provider=ovn\nmanage-security-groups=true": 1, "lb-provider=ovn": 0, "manage-security-groups=true": 0} {
		if problems, _ := Check(wishesConfig(t, "[LoadBalancer]\n"+conf+"\n"), spec); len(problems) != want {
			t.Errorf("%q: problems %v, want %d", conf, problems, want)
		}
	}
	spec.SourceRanges = spec.SourceRanges[1:]
	if problems, _ := Check(wishesConfig(t, "[LoadBalancer]\nlb-provider=ovn\nmanage-security-groups=true\n"), spec); len(problems) != 0 {
		t.Errorf("problems %v of as many as are made", problems)
	}
}

// TestCheckOfPattern: the pattern of the floating IP's subnet is only used to make one.
func TestCheckOfPattern(t *testing.T) {
	cfg := wishesConfig(t, "")
	for name, tt := range map[string]struct {
		change func(*cloud.LoadBalancerSpec)
		want   int
	}{
		"new":         {func(*cloud.LoadBalancerSpec) {}, 1},
		"address":     {func(s *cloud.LoadBalancerSpec) { s.LoadBalancerIP = netip.MustParseAddr("203.0.113.7") }, 0},
		"port":        {func(s *cloud.LoadBalancerSpec) { s.Settings[AnnPortID] = diffID }, 0},
		"shared":      {func(s *cloud.LoadBalancerSpec) { s.Settings[AnnLoadBalancerID] = diffID }, 0},
		"published":   {func(s *cloud.LoadBalancerSpec) { s.Settings[AnnAddress] = "203.0.113.7" }, 0},
		"by ID":       {func(s *cloud.LoadBalancerSpec) { s.Settings[AnnFloatingSubnetID] = diffID }, -1},
		"no floating": {func(s *cloud.LoadBalancerSpec) { s.Settings[AnnInternal] = "true" }, -1},
	} {
		spec := wishesSpec(cloud.Settings{AnnFloatingSubnet: "~("}, tt.change)
		problems, warnings := Check(cfg, spec)
		if len(problems) != max(tt.want, 0) || tt.want < 1 && len(warnings) != tt.want+1 {
			t.Errorf("%s: problems %v, warnings %q", name, problems, warnings)
		}
	}
}

// TestCheckNamesTheSource: where cloud.conf is to blame, the user is told so.
func TestCheckNamesTheSource(t *testing.T) {
	cfg := wishesConfig(t, "[LoadBalancer]\ndefault-tls-container-ref=my-certificate\n")
	problems, _ := Check(cfg, wishesSpec(cloud.Settings{}, nil))
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "this is [LoadBalancer] default-tls-container-ref of cloud.conf") {
		t.Errorf("%v", problems)
	}
	if problems, _ := Check(cfg, wishesSpec(cloud.Settings{AnnTLSContainerRef: ""}, nil)); len(problems) > 0 {
		t.Errorf("taken away by the annotation: %v", problems)
	}
}
