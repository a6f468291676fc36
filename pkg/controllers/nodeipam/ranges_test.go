package nodeipam

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func prefixes(t *testing.T, flag, text string) []netip.Prefix {
	t.Helper()
	p, err := ParseCIDRs(flag, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name, cluster, services string
		all, four, six          int
		want                    []string
	}{
		{name: "IPv4", cluster: "10.244.0.0/16"},
		{name: "IPv6", cluster: "fd00::/48"},
		{name: "both", cluster: "10.244.0.0/16,fd00::/56", services: "10.96.0.0/12,fd01::/108", four: 26, six: 72},
		{name: "several of a family", cluster: "10.244.0.0/16,10.99.0.0/16,fd00::/56", four: 25},
		{name: "size of one family", cluster: "fd00::/56", all: 64},
		{name: "one block", cluster: "10.244.1.0/24"},
		{name: "none", want: []string{"--allocate-node-cidrs requires --cluster-cidr"}},
		{name: "the common size with both", cluster: "10.244.0.0/16,fd00::/56", all: 24,
			want: []string{"--node-cidr-mask-size is not possible with both IP families: use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6",
				"--node-cidr-mask-size: a Node's CIDR of /24 is larger than the cluster CIDR fd00::/56"}},
		{name: "both kinds of sizes", cluster: "10.244.0.0/16", all: 24, four: 24,
			want: []string{"--node-cidr-mask-size and --node-cidr-mask-size-ipv4 or -ipv6 exclude each other"}},
		{name: "the size of the other family", cluster: "10.244.0.0/16", six: 64,
			want: []string{"--node-cidr-mask-size-ipv6 is not possible without an IPv6 --cluster-cidr"}},
		{name: "the size of the other family, IPv6", cluster: "fd00::/56", four: 24,
			want: []string{"--node-cidr-mask-size-ipv4 is not possible without an IPv4 --cluster-cidr"}},
		{name: "larger than the cluster", cluster: "10.244.0.0/25", want: []string{"--node-cidr-mask-size-ipv4: a Node's CIDR of /24 is larger than the cluster CIDR 10.244.0.0/25"}},
		{name: "too small", cluster: "fd00::/40", want: []string{"--node-cidr-mask-size-ipv6: /64 is more than 16 bits longer than the cluster CIDR fd00::/40"}},
		{name: "far too small", cluster: "0.0.0.0/1", all: 32, want: []string{"--node-cidr-mask-size: /32 is more than 24 bits longer than the cluster CIDR 0.0.0.0/1"}},
		{name: "longer than an address", cluster: "10.244.0.0/16", all: 64, want: []string{"--node-cidr-mask-size: /64 is longer than an address of the cluster CIDR 10.244.0.0/16"}},
		{name: "negative", cluster: "10.244.0.0/16", four: -1, want: []string{"--node-cidr-mask-size-ipv4 must not be negative, but is -1",
			"--node-cidr-mask-size-ipv4: a Node's CIDR of /-1 is larger than the cluster CIDR 10.244.0.0/16"}},
		{name: "two service ranges of a family", cluster: "10.244.0.0/16", services: "10.96.0.0/16,10.97.0.0/16",
			want: []string{"--service-cluster-ip-range: at most one CIDR of each IP family is possible"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Config{
				ClusterCIDRs: prefixes(t, "cluster-cidr", test.cluster), ServiceCIDRs: prefixes(t, "service-cluster-ip-range", test.services),
				MaskSize: test.all, MaskSizeIPv4: test.four, MaskSizeIPv6: test.six,
			}
			var got []string
			for _, err := range c.Validate() {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
	overlapping := Config{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16")}}
	if errs := overlapping.Validate(); len(errs) != 1 || errs[0].Error() != "--cluster-cidr: 10.0.0.0/8 and 10.1.0.0/16 overlap" {
		t.Errorf("got %v", errs)
	}
}

func TestParseCIDRs(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		" 10.244.1.0/16 , fd00::1/48 ":      "",
		"10.244.0.0":                        `--f: "10.244.0.0" is not a CIDR such as 10.244.0.0/16`,
		"10.244.0.0/16,":                    `--f: "" is not a CIDR such as 10.244.0.0/16`,
		"::ffff:10.0.0.0/104":               `--f: "::ffff:10.0.0.0/104" is not a CIDR such as 10.244.0.0/16`,
		"10.244.0.0/16,fd00::/8,10.0.0.0/8": "--f: 10.244.0.0/16 and 10.0.0.0/8 overlap",
	} {
		got := ""
		if _, err := ParseCIDRs("f", text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got error %q, want %q", text, got, want)
		}
	}
}

func FuzzParseCIDRs(f *testing.F) {
	for _, s := range []string{"10.244.0.0/16", "10.244.0.0/16,fd00::/48", ",", "::/0", "0.0.0.0/0", "fd00::/129"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cidrs, err := ParseCIDRs("f", text)
		if err != nil {
			return
		}
		for i, c := range cidrs {
			if c != c.Masked() || c.Addr().Is4In6() {
				t.Errorf("%q: %s is not in its plain form", text, c)
			}
			for _, other := range cidrs[:i] {
				if c.Overlaps(other) {
					t.Errorf("%q: %s and %s overlap", text, c, other)
				}
			}
		}
	})
}
