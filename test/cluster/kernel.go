package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrKernel says that this machine's kernel cannot run a cluster.
var ErrKernel = errors.New("this machine's kernel lacks what a cluster needs")

// feature is something of the kernel that pods' traffic needs.
type feature struct {
	name, option string
	try          func(context.Context, *environment) error
}

// probeRules are what kube-proxy's rules are made of.
const probeRules = `table ip probe {
  map targets { type inet_proto . inet_service : verdict; }
  chain services { type nat hook prerouting priority dstnat; fib daddr type local meta l4proto . th dport vmap @targets; }
  chain endpoint { meta l4proto tcp dnat to numgen random mod 2 map { 0 : 192.0.2.1, 1 : 192.0.2.2 }; }
  chain source { type nat hook postrouting priority srcnat; meta mark 1 masquerade; }
}
delete table ip probe
`

func features() []feature {
	command := func(in, program string, args ...string) func(context.Context, *environment) error {
		return func(ctx context.Context, e *environment) error {
			_, err := e.output(ctx, strings.NewReader(in), program, args...)
			return err
		}
	}
	return []feature{
		{"bridges", "CONFIG_BRIDGE", command("link add probe type bridge\nlink del probe\n", "ip", "-batch", "-")},
		{"virtual Ethernet", "CONFIG_VETH", command("link add probe type veth peer name peer\nlink del probe\n", "ip", "-batch", "-")},
		{"nftables with NAT", "CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4, CONFIG_NFT_NAT, CONFIG_NFT_MASQ, CONFIG_NFT_NUMGEN, CONFIG_NFT_FIB_IPV4", command(probeRules, "nft", "-f", "-")},
		{"nftables for bridged packets", "CONFIG_BRIDGE_NETFILTER (module br_netfilter)", func(context.Context, *environment) error {
			_, err := os.Stat("/proc/sys/net/bridge/bridge-nf-call-iptables")
			return err
		}},
	}
}

// checkKernel tries what the kernel has to have and says all that is missing.
func checkKernel(ctx context.Context, e *environment, features []feature) error {
	var missing []error
	for _, f := range features {
		if err := f.try(ctx, e); err != nil {
			missing = append(missing, fmt.Errorf("%s (%s): %w", f.name, f.option, err))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrKernel, errors.Join(missing...))
}
