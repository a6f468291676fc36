package play

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Place is a World that was made, or a project of a real cloud.
type Place struct {
	Cloud   *snapshot.Cloud
	Symbols *symbol.Symbols
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

// Make makes a world in a new simulator, with a server for each Node. Symbols then are:
// {subnet}, {network}, {subnet6}, {router}; {ext} the external network that the cloud lists first with its
// subnets {ext.1} (public-subnet, no tags), {ext.2} (public-two; red, blue) and {ext.3} (public-three; red);
// {ext2}; of server N {nodeN} (address), {nodeN.6}, {nodeN.id}, {nodeN.port}; {wish.1}… are free
// addresses of the subnet, {wish-fip.1}… of the external network; {keys}/v1/secrets/{tls} and {tls2} are certificates.
func Make(ctx context.Context, w script.World, sim *ossim.Sim, servers int) (*Place, error) {
	cloud, err := snapshot.Login(ctx, credentials(sim, ossim.UserName, ossim.UserPassword, ossim.ProjectName), ossim.Region)
	if err != nil {
		return nil, err
	}
	admin, err := snapshot.Login(ctx, credentials(sim, ossim.AdminName, ossim.AdminPassword, ossim.AdminName), ossim.Region)
	if err != nil {
		return nil, err
	}
	net := fmt.Sprintf("127.%d", sim.Net())
	p := &Place{Cloud: cloud, Symbols: symbol.New(net, sim.URL()+"/key-manager")}
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
	if err := errors.Join(external(ctx, w, admin, p, net), dualStack(ctx, w, p)); err != nil {
		return nil, err
	}
	return p, p.servers(ctx, sim, servers)
}

func credentials(sim *ossim.Sim, user, password, project string) gophercloud.AuthOptions {
	return gophercloud.AuthOptions{IdentityEndpoint: sim.AuthURL(), Username: user, Password: password, DomainName: "Default", TenantName: project, AllowReauth: true}
}

// external makes the external networks.
func external(ctx context.Context, w script.World, admin *snapshot.Cloud, p *Place, net string) error {
	first := p.Symbols.Value("ext")
	if w.External < 0 {
		return snapshot.Call(ctx, admin.Network, http.MethodPut, map[string]any{"network": snapshot.Object{"router:external": false}}, nil, "networks", first)
	}
	for i, s := range []struct {
		name, cidr string
		tags       []string
	}{{"public-two", secondFloating, []string{"red", "blue"}}, {"public-three", thirdFloating, []string{"red"}}} {
		made, err := admin.Make(ctx, admin.Network, "subnet", snapshot.Object{"network_id": first, "name": s.name, "cidr": fmt.Sprintf(s.cidr, net), "ip_version": 4, "enable_dhcp": false}, "subnets")
		if err != nil {
			return err
		}
		p.Symbols.Set(fmt.Sprintf("ext.%d", i+2), snapshot.Text(made, "id"))
		if err := snapshot.Call(ctx, admin.Network, http.MethodPut, map[string]any{"tags": s.tags}, nil, "subnets", snapshot.Text(made, "id"), "tags"); err != nil {
			return err
		}
	}
	if w.External < 2 {
		return nil
	}
	for {
		// Networks are listed in the order of their identifiers; the reachable one shall be the first.
		made, err := admin.Make(ctx, admin.Network, "network", snapshot.Object{"name": "public-other", "router:external": true}, "networks")
		if err != nil {
			return err
		}
		id := snapshot.Text(made, "id")
		if id < first {
			if err := snapshot.Call(ctx, admin.Network, http.MethodDelete, nil, nil, "networks", id); err != nil {
				return err
			}
			continue
		}
		p.Symbols.Set("ext2", id)
		_, err = admin.Make(ctx, admin.Network, "subnet", snapshot.Object{"network_id": id, "name": "other-subnet", "cidr": fmt.Sprintf(otherExternal, net), "ip_version": 4, "enable_dhcp": false}, "subnets")
		return err
	}
}

// dualStack makes the IPv6 subnet.
func dualStack(ctx context.Context, w script.World, p *Place) error {
	if !w.DualStack {
		return nil
	}
	made, err := p.Cloud.Make(ctx, p.Cloud.Network, "subnet", snapshot.Object{"network_id": p.Symbols.Value("network"), "name": "k8s-subnet6", "cidr": cidr6, "ip_version": 6,
		"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}, "subnets")
	if err != nil {
		return err
	}
	p.Symbols.Set("subnet6", snapshot.Text(made, "id"))
	return snapshot.Call(ctx, p.Cloud.Network, http.MethodPut, snapshot.Object{"subnet_id": snapshot.Text(made, "id")}, nil, "routers", p.Symbols.Value("router"), "add_router_interface")
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
func Simulator(w script.World) (*ossim.Sim, error) {
	return ossim.Start(ossim.Options{StateDelay: -1, Jobboard: !w.Stuck, HideExternalSubnets: w.Hidden})
}

// PlaneOptions are those of a control plane for dual-stack Services.
func PlaneOptions() controlplane.Options {
	return controlplane.Options{APIServerArgs: map[string][]string{"service-cluster-ip-range": {"10.0.0.0/16,fd00:10::/112"}}}
}
