package plan

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/annotations"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestWhichServicesAreReachedByIPv6(t *testing.T) {
	const managed = "NLBSecurityGroupMode = Managed\n"
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	for name, tt := range map[string]struct {
		families []corev1.IPFamily
		ranges   []netip.Prefix
		conf     string
		change   func(*cloud.LoadBalancerSpec)
		want     bool   // it is reached by IPv6
		says     string // the one warning or problem, "" for none
	}{
		"IPv4":                       {families: []corev1.IPFamily{four}},
		"IPv4 with ranges of IPv6":   {families: []corev1.IPFamily{four}, ranges: prefixes("10.0.0.0/8", "2001:db8::/32"), says: "ranges of IPv6 have no effect"},
		"both":                       {families: []corev1.IPFamily{four, six}, want: true},
		"IPv6 first":                 {families: []corev1.IPFamily{six, four}, want: true},
		"IPv6 alone":                 {families: []corev1.IPFamily{six}, want: true},
		"everyone, said":             {families: []corev1.IPFamily{four, six}, ranges: prefixes("0.0.0.0/0", "::/0"), want: true},
		"nobody of IPv6":             {families: []corev1.IPFamily{four, six}, ranges: prefixes("10.0.0.0/8"), conf: managed, says: "has no range of IPv6"},
		"nobody of IPv4":             {families: []corev1.IPFamily{four, six}, ranges: prefixes("2001:db8::/32"), conf: managed, want: true},
		"ranges that cannot be kept": {families: []corev1.IPFamily{four, six}, ranges: prefixes("10.0.0.0/8", "2001:db8::/32"), says: "could not be kept; set NLBSecurityGroupMode"},
		"some of IPv4, all of IPv6":  {families: []corev1.IPFamily{four, six}, ranges: prefixes("10.0.0.0/8", "::/0"), says: "could not be kept"},
		"ranges, and a group of one's": {families: []corev1.IPFamily{four, six}, ranges: prefixes("10.0.0.0/8", "2001:db8::/32"), conf: managed,
			change: func(s *cloud.LoadBalancerSpec) { s.Settings[annotations.SecurityGroups] = "sg-1" }, says: "remove the annotation " + annotations.SecurityGroups},
		"UDP": {families: []corev1.IPFamily{four, six}, change: func(s *cloud.LoadBalancerSpec) { s.Ports[0].Protocol = corev1.ProtocolUDP }, says: "UDP by IPv6"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := service("default", "web", tcp("", 80, 30080))
			spec.IPFamilies, spec.SourceRanges = tt.families, tt.ranges
			if tt.change != nil {
				tt.change(spec)
			}
			w := Resolve(conf(t, tt.conf), spec)
			said := w.Warnings()
			for _, p := range w.problems {
				said = append(said, p.Error())
			}
			if w.IPv6 != tt.want || len(w.Clients6) > 0 != tt.want || tt.says == "" && len(said) > 0 || tt.says != "" && (len(said) != 1 || !strings.Contains(said[0], tt.says)) {
				t.Errorf("%v, %v, %q", w.IPv6, w.Clients6, said)
			}
		})
	}
}

func TestSettleKnowsWhereTheLoadBalancerIs(t *testing.T) {
	spec := service("default", "web", tcp("", 80, 30080))
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	settle := func(seen *Balancer, lacking ...string) (bool, string, error) {
		w := Resolve(conf(t, "NLBSecurityGroupMode = Managed\n"), spec)
		warnings, err := w.Settle(seen, lacking)
		return w.DualStack, strings.Join(warnings, "; "), err
	}
	if dual, says, err := settle(nil); !dual || says != "" || err != nil {
		t.Errorf("a new one: %v, %q, %v", dual, says, err)
	}
	if dual, says, err := settle(nil, "subnet-1"); dual || !strings.Contains(says, "subnets subnet-1 have no range of IPv6") || err != nil {
		t.Errorf("no range: %v, %q, %v", dual, says, err)
	}
	if dual, _, _ := settle(&Balancer{DualStack: true}, "subnet-1"); !dual {
		t.Error("one that has IPv6 loses it with a route")
	}
	spec.SourceRanges = prefixes("2001:db8::/32")
	if dual, says, err := settle(&Balancer{SecurityGroups: []string{"sg-1"}}); !dual || says != "" || err != nil {
		t.Errorf("ranges: %v, %q, %v", dual, says, err)
	}
	if dual, _, err := settle(&Balancer{}); dual || cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), "nobody is let in") {
		t.Errorf("ranges without a group: %v, %v", dual, err)
	}
}

func TestTargetGroupsOfIPv6HaveNamesOfTheirOwn(t *testing.T) {
	spec := service("default", "web", tcp("", 80, 30080))
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	w := Resolve(conf(t, ""), spec)
	before := w.Listeners[0].Wanted
	if w.ReachByIPv6(spec.LoadBalancerRef, &Balancer{}, 1, 1) {
		t.Error("by IPv6, though the load balancer is not")
	}
	if _, err := w.Settle(nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []struct{ able, all int }{{0, 1}, {0, 0}, {1, 2}} {
		if got, want := w.ReachByIPv6(spec.LoadBalancerRef, &Balancer{}, n.able, n.all), n.able > 0 || n.all == 0; got != want {
			t.Errorf("%+v: %v", n, got)
		}
	}
	after := w.Listeners[0].Wanted
	if after.Name == before.Name || !after.IPv6 || before.IPv6 || before.fits(after) || !IsTargetGroupName(after.Name, spec.LoadBalancerRef) {
		t.Errorf("%+v, before %+v", after, before)
	}
}

func TestOnlyWhatWasMadeDualStackHereBecomesIPv4Again(t *testing.T) {
	for name, tt := range map[string]struct {
		asked bool
		tags  map[string]string
		want  bool
	}{
		"asked for":        {true, AddressTypeTag(), true},
		"no more":          {false, AddressTypeTag(), false},
		"made by others":   {false, map[string]string{"kubernetes.io/cluster/c": "owned"}, true},
		"others' and ours": {true, nil, true},
	} {
		if got := (&Wish{DualStack: tt.asked}).KeepsIPv6(&Balancer{DualStack: true, Tags: tt.tags}); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
