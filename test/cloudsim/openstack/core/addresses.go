package core

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
)

// addressPlan divides 127.N.0.0/16, or Options.Addresses likewise.
type addressPlan struct {
	net int
	// Tenant is the private subnet, 127.N.0.0/18: gateway .0.1, ports from .0.10 on.
	Tenant netip.Prefix
	// Floating is the external subnet, 127.N.128.0/18: floating IPs and router gateways.
	Floating netip.Prefix
}

// claimPort is the TCP port on 127.N.255.254 whose listener marks the net as taken; it is outside
// the range of ports that the kernel picks by itself.
const claimPort = 17127

func planFor(a, b byte) addressPlan {
	return addressPlan{
		net:      int(b),
		Tenant:   netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, 0, 0}), 18),
		Floating: netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, 128, 0}), 18),
	}
}

// claimNet takes 127.Net.0.0/16, or a free one when Net is 0, so that simulators of several
// processes never share addresses. Addresses are the caller's to share.
func (o *Options) claimNet() (io.Closer, addressPlan, error) {
	if o.Addresses.IsValid() {
		octets := o.Addresses.Addr().As4()
		return io.NopCloser(nil), planFor(octets[0], octets[1]), nil
	}
	n := o.Net
	if n != 0 {
		if n < 1 || n > 254 {
			return nil, addressPlan{}, fmt.Errorf("net %d is outside 1-254", n)
		}
		ln, err := listenClaim(n)
		if err != nil {
			return nil, addressPlan{}, fmt.Errorf("net 127.%d.0.0/16 is taken by another simulator: %w", n, err)
		}
		return ln, planFor(127, byte(n)), nil
	}
	var last error
	for n := 64; n <= 254; n++ {
		ln, err := listenClaim(n)
		if err == nil {
			return ln, planFor(127, byte(n)), nil
		}
		last = err
	}
	return nil, addressPlan{}, errors.Join(errors.New("no free net among 127.64.0.0/16 to 127.254.0.0/16; end other simulators"), last)
}

func listenClaim(n int) (net.Listener, error) {
	at := net.JoinHostPort(fmt.Sprintf("127.%d.255.254", n), strconv.Itoa(claimPort))
	return net.Listen("tcp", at) //nolint:noctx // listening on a loopback address does not wait
}
