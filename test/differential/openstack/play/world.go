package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// World says what the cloud of a group is like.
type World struct {
	// External is how many external networks there are: -1 for none, 0 for one.
	External int
	// DualStack has an IPv6 subnet beside the IPv4 one.
	DualStack bool
	// Stuck has Octavia's amphora driver leave what comes with a new load balancer in PENDING_CREATE, as Zed
	// does without a jobboard.
	Stuck bool
	// Hidden has Neutron hide the subnets of external networks from projects, as its default policy does.
	Hidden bool `json:",omitempty"`
}

// Place is a World that was made, or a project of a real cloud.
type Place struct {
	Cloud   *Cloud
	Symbols *Symbols
	// Global is the section [Global] of a cloud.conf.
	Global string
}

// Addresses of the simulator's floating network; see the simulator's doc.
const (
	secondFloating = "%s.192.0/20"
	thirdFloating  = "%s.208.0/20"
	otherExternal  = "%s.224.0/20"
	cidr6          = "fd00:96::/64"
)

// Make makes the world in a new simulator, with a server for each Node. Symbols then are:
// {subnet}, {network}, {subnet6}, {router}; {ext} the external network that the cloud lists first with its
// subnets {ext.1} (public-subnet, no tags), {ext.2} (public-two; red, blue) and {ext.3} (public-three; red);
// {ext2}; of server N {nodeN} (address), {nodeN.6}, {nodeN.id}, {nodeN.port}; {wish.1}… are free
// addresses of the subnet, {wish-fip.1}… of the external network; {keys}/v1/secrets/{tls} and {tls2} are certificates.
func (w World) Make(ctx context.Context, sim *ossim.Sim, servers int) (*Place, error) {
	cloud, err := Login(ctx, credentials(sim, ossim.UserName, ossim.UserPassword, ossim.ProjectName), ossim.Region)
	if err != nil {
		return nil, err
	}
	admin, err := Login(ctx, credentials(sim, ossim.AdminName, ossim.AdminPassword, ossim.AdminName), ossim.Region)
	if err != nil {
		return nil, err
	}
	net := fmt.Sprintf("127.%d", sim.Net())
	p := &Place{Cloud: cloud, Symbols: NewSymbols(net, sim.URL()+"/key-manager")}
	p.Global, _, _ = strings.Cut(sim.CloudConf(), "\n[LoadBalancer]")
	d := sim.Defaults()
	for symbol, id := range map[string]string{"subnet": d.SubnetID, "network": d.NetworkID, "ext": d.ExternalNetworkID, "ext.1": d.ExternalSubnetID, "router": d.RouterID} {
		p.Symbols.Set(symbol, id)
	}
	for i := 1; i <= 9; i++ {
		p.Symbols.Set(fmt.Sprintf("wish.%d", i), fmt.Sprintf("%s.60.%d", net, i))
		p.Symbols.Set(fmt.Sprintf("wish-fip.%d", i), fmt.Sprintf("%s.190.%d", net, i))
	}
	for _, symbol := range []string{"tls", "tls2"} {
		p.Symbols.Set(symbol, sim.AddSecret(symbol, "application/octet-stream", []byte("certificate")))
	}
	if err := errors.Join(w.external(ctx, admin, p, net), w.dualStack(ctx, p)); err != nil {
		return nil, err
	}
	return p, p.servers(ctx, sim, servers)
}

func credentials(sim *ossim.Sim, user, password, project string) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{IdentityEndpoint: sim.AuthURL(), Username: user, Password: password, DomainName: "Default", TenantName: project, AllowReauth: true}
}

// external makes the external networks.
func (w World) external(ctx context.Context, admin *Cloud, p *Place, net string) error {
	first := p.Symbols.Value("ext")
	if w.External < 0 {
		return call(ctx, admin.Network, http.MethodPut, map[string]any{"network": Object{"router:external": false}}, nil, "networks", first)
	}
	for i, s := range []struct {
		name, cidr string
		tags       []string
	}{{"public-two", secondFloating, []string{"red", "blue"}}, {"public-three", thirdFloating, []string{"red"}}} {
		made, err := admin.make(ctx, admin.Network, "subnet", Object{"network_id": first, "name": s.name, "cidr": fmt.Sprintf(s.cidr, net), "ip_version": 4, "enable_dhcp": false}, "subnets")
		if err != nil {
			return err
		}
		p.Symbols.Set(fmt.Sprintf("ext.%d", i+2), text(made, "id"))
		if err := call(ctx, admin.Network, http.MethodPut, map[string]any{"tags": s.tags}, nil, "subnets", text(made, "id"), "tags"); err != nil {
			return err
		}
	}
	if w.External < 2 {
		return nil
	}
	for {
		// Networks are listed in the order of their identifiers; the reachable one shall be the first.
		made, err := admin.make(ctx, admin.Network, "network", Object{"name": "public-other", "router:external": true}, "networks")
		if err != nil {
			return err
		}
		id := text(made, "id")
		if id < first {
			if err := call(ctx, admin.Network, http.MethodDelete, nil, nil, "networks", id); err != nil {
				return err
			}
			continue
		}
		p.Symbols.Set("ext2", id)
		_, err = admin.make(ctx, admin.Network, "subnet", Object{"network_id": id, "name": "other-subnet", "cidr": fmt.Sprintf(otherExternal, net), "ip_version": 4, "enable_dhcp": false}, "subnets")
		return err
	}
}

// dualStack makes the IPv6 subnet.
func (w World) dualStack(ctx context.Context, p *Place) error {
	if !w.DualStack {
		return nil
	}
	made, err := p.Cloud.make(ctx, p.Cloud.Network, "subnet", Object{"network_id": p.Symbols.Value("network"), "name": "k8s-subnet6", "cidr": cidr6, "ip_version": 6,
		"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}, "subnets")
	if err != nil {
		return err
	}
	p.Symbols.Set("subnet6", text(made, "id"))
	return call(ctx, p.Cloud.Network, http.MethodPut, Object{"subnet_id": text(made, "id")}, nil, "routers", p.Symbols.Value("router"), "add_router_interface")
}

// servers makes them, and gives their addresses symbols.
func (p *Place) servers(ctx context.Context, sim *ossim.Sim, n int) error {
	made := sim.SeedServers(ossim.Seed{Count: n, NamePrefix: "node"})
	if len(made) < n {
		return fmt.Errorf("only %d of %d servers fit into the network", len(made), n)
	}
	for i, s := range made {
		name := fmt.Sprintf("node%d", i)
		p.Symbols.Set(name+".id", s.ID)
		p.Symbols.Set(name+".port", s.PortIDs[0])
		for _, a := range s.Addresses {
			if a.Is6() {
				p.Symbols.Set(name+".6", a.String())
			} else {
				p.Symbols.Set(name, a.String())
			}
		}
	}
	return ctx.Err()
}

// Simulator starts a simulator for the world; Octavia is as fast as can be.
func (w World) Simulator() (*ossim.Sim, error) {
	return ossim.Start(ossim.Options{StateDelay: -1, Jobboard: !w.Stuck, HideExternalSubnets: w.Hidden})
}

// PlaneOptions are those of a control plane for dual-stack Services.
func PlaneOptions() controlplane.Options {
	return controlplane.Options{APIServerArgs: map[string][]string{"service-cluster-ip-range": {"10.0.0.0/16,fd00:10::/112"}}}
}
