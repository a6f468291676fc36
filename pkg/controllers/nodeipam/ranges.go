package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Config is what the flags say, which are those of kube-controller-manager.
type Config struct {
	// ClusterCIDRs are --cluster-cidr. Beyond kube-controller-manager, a family may have
	// several: the next one is used when those before it are full.
	ClusterCIDRs []netip.Prefix
	// ServiceCIDRs are --service-cluster-ip-range; no Node gets what overlaps them.
	ServiceCIDRs []netip.Prefix
	// MaskSize, MaskSizeIPv4 and MaskSizeIPv6 are --node-cidr-mask-size and
	// --node-cidr-mask-size-ipv4 and -ipv6; 0 stands for the default.
	MaskSize, MaskSizeIPv4, MaskSizeIPv6 int
}

const (
	defaultMaskSizeIPv4 = 24
	defaultMaskSizeIPv6 = 64
	// maxBlockBits4 and maxBlockBits6 bound how many bits longer a Node's CIDR may be than
	// the cluster's. That of IPv6 is kube-controller-manager's; without that of IPv4 a
	// mistyped mask would cost gigabytes.
	maxBlockBits4 = 24
	maxBlockBits6 = 16
)

// Validate checks the configuration as kube-controller-manager does and returns all
// problems, each naming its flag.
func (c Config) Validate() []error {
	if len(c.ClusterCIDRs) == 0 {
		return []error{errors.New("--allocate-node-cidrs requires --cluster-cidr")}
	}
	errs := c.checkFlags()
	if err := disjoint("cluster-cidr", c.ClusterCIDRs); err != nil {
		errs = append(errs, err)
	}
	for _, cidr := range c.ClusterCIDRs {
		flag, size := c.maskSize(cidr)
		limit := maxBlockBits6
		if cidr.Addr().Is4() {
			limit = maxBlockBits4
		}
		switch {
		case size < cidr.Bits():
			errs = append(errs, fmt.Errorf("%s: a Node's CIDR of /%d is larger than the cluster CIDR %s", flag, size, cidr))
		case size > cidr.Addr().BitLen():
			errs = append(errs, fmt.Errorf("%s: /%d is longer than an address of the cluster CIDR %s", flag, size, cidr))
		case size-cidr.Bits() > limit:
			errs = append(errs, fmt.Errorf("%s: /%d is more than %d bits longer than the cluster CIDR %s", flag, size, limit, cidr))
		}
	}
	if s := c.ServiceCIDRs; len(s) > 2 || len(s) == 2 && s[0].Addr().Is4() == s[1].Addr().Is4() {
		errs = append(errs, errors.New("--service-cluster-ip-range: at most one CIDR of each IP family is possible"))
	}
	return errs
}

// checkFlags refuses the combinations of sizes that kube-controller-manager refuses.
func (c Config) checkFlags() []error {
	var errs []error
	for _, f := range []struct {
		flag string
		size int
	}{{"--node-cidr-mask-size", c.MaskSize}, {"--node-cidr-mask-size-ipv4", c.MaskSizeIPv4}, {"--node-cidr-mask-size-ipv6", c.MaskSizeIPv6}} {
		if f.size < 0 {
			errs = append(errs, fmt.Errorf("%s must not be negative, but is %d", f.flag, f.size))
		}
	}
	four, six := c.families()
	switch {
	case four && six && c.MaskSize != 0:
		errs = append(errs, errors.New("--node-cidr-mask-size is not possible with both IP families: use --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6"))
	case c.MaskSize != 0 && (c.MaskSizeIPv4 != 0 || c.MaskSizeIPv6 != 0):
		errs = append(errs, errors.New("--node-cidr-mask-size and --node-cidr-mask-size-ipv4 or -ipv6 exclude each other"))
	case !four && c.MaskSizeIPv4 != 0:
		errs = append(errs, errors.New("--node-cidr-mask-size-ipv4 is not possible without an IPv4 --cluster-cidr"))
	case !six && c.MaskSizeIPv6 != 0:
		errs = append(errs, errors.New("--node-cidr-mask-size-ipv6 is not possible without an IPv6 --cluster-cidr"))
	}
	return errs
}

// families reports which IP families the cluster CIDRs have.
func (c Config) families() (four, six bool) {
	for _, cidr := range c.ClusterCIDRs {
		four, six = four || cidr.Addr().Is4(), six || !cidr.Addr().Is4()
	}
	return four, six
}

// maskSize is the size of a Node's CIDR in the cluster CIDR, and the flag that sets it.
func (c Config) maskSize(cidr netip.Prefix) (flag string, size int) {
	flag, size, standard := "--node-cidr-mask-size-ipv6", c.MaskSizeIPv6, defaultMaskSizeIPv6
	if cidr.Addr().Is4() {
		flag, size, standard = "--node-cidr-mask-size-ipv4", c.MaskSizeIPv4, defaultMaskSizeIPv4
	}
	switch {
	case c.MaskSize != 0:
		return "--node-cidr-mask-size", c.MaskSize
	case size != 0:
		return flag, size
	}
	return flag, standard
}

// pools makes the pools, by family in the order in which --cluster-cidr first names it,
// which is the order of a Node's CIDRs. What Services use is taken.
func (c Config) pools() [][]*pool {
	var out [][]*pool
	at := map[bool]int{}
	for _, cidr := range c.ClusterCIDRs {
		four := cidr.Addr().Is4()
		if _, ok := at[four]; !ok {
			at[four] = len(out)
			out = append(out, nil)
		}
		_, size := c.maskSize(cidr)
		p := newPool(cidr.Masked(), size)
		for _, s := range c.ServiceCIDRs {
			p.hold(s)
		}
		out[at[four]] = append(out[at[four]], p)
	}
	return out
}

// disjoint refuses CIDRs of a flag that overlap.
func disjoint(flag string, cidrs []netip.Prefix) error {
	for i, cidr := range cidrs {
		for _, other := range cidrs[:i] {
			if cidr.Overlaps(other) {
				return fmt.Errorf("--%s: %s and %s overlap", flag, other, cidr)
			}
		}
	}
	return nil
}

// ParseCIDRs parses the comma-separated CIDRs of a flag, which must not overlap.
func ParseCIDRs(flag, text string) ([]netip.Prefix, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var out []netip.Prefix
	for item := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(item))
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("--%s: %q is not a CIDR such as 10.244.0.0/16", flag, item)
		}
		out = append(out, p.Masked())
	}
	return out, disjoint(flag, out)
}
