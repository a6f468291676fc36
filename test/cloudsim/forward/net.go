package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
)

// claimPort is the TCP port on 127.N.255.254 whose listener marks the net as taken; it is outside
// the range of ports that the kernel picks by itself.
const claimPort = 17127

// ClaimNet takes 127.n.0.0/16, or a free one when n is 0, until the claim is closed, so that simulators of several
// processes never share addresses. The claimer does not use 127.n.255.254.
func ClaimNet(n int) (claim io.Closer, addresses netip.Prefix, err error) {
	if n != 0 {
		if n < 1 || n > 254 {
			return nil, netip.Prefix{}, fmt.Errorf("net %d is outside 1-254", n)
		}
		ln, err := listenClaim(n)
		if err != nil {
			return nil, netip.Prefix{}, fmt.Errorf("net 127.%d.0.0/16 is taken by another simulator: %w", n, err)
		}
		return ln, prefixOf(n), nil
	}
	var last error
	for n := 64; n <= 254; n++ {
		ln, err := listenClaim(n)
		if err == nil {
			return ln, prefixOf(n), nil
		}
		last = err
	}
	return nil, netip.Prefix{}, errors.Join(errors.New("no free net among 127.64.0.0/16 to 127.254.0.0/16; end other simulators"), last)
}

func prefixOf(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(n), 0, 0}), 16)
}

func listenClaim(n int) (net.Listener, error) {
	at := net.JoinHostPort(fmt.Sprintf("127.%d.255.254", n), strconv.Itoa(claimPort))
	return net.Listen("tcp", at) //nolint:noctx // listening on a loopback address does not wait
}
