package core

import (
	"io"
	"net/netip"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
)

// addressPlan divides 127.N.0.0/16, or Options.Addresses likewise.
type addressPlan struct {
	net int
	// Tenant is the private subnet, 127.N.0.0/18: gateway .0.1, ports from .0.10 on.
	Tenant netip.Prefix
	// Floating is the external subnet, 127.N.128.0/18: floating IPs and router gateways.
	Floating netip.Prefix
	spare    netip.Prefix
}

func planFor(all netip.Prefix) addressPlan {
	octets := all.Addr().As4()
	a, b := octets[0], octets[1]
	return addressPlan{
		net:      int(b),
		Tenant:   netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, 0, 0}), 18),
		Floating: netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, 128, 0}), 18),
		spare:    netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, 64, 0}), 18),
	}
}

// Spare is a range of the simulator's addresses that it hands out none of, 127.N.64.0/18, for a subnet of a test's.
func (s *API) Spare() netip.Prefix { return s.cloud.spare }

// claimNet takes 127.Net.0.0/16, or a free one when Net is 0. Addresses are the caller's to share.
func (o *Options) claimNet() (io.Closer, addressPlan, error) {
	if o.Addresses.IsValid() {
		return io.NopCloser(nil), planFor(o.Addresses), nil
	}
	claim, all, err := forward.ClaimNet(o.Net)
	if err != nil {
		return nil, addressPlan{}, err
	}
	return claim, planFor(all), nil
}
