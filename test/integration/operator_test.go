package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	openstacksdk "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// What an operator does to the cloud behind the controllers' back.

func operator(t *testing.T, sim *ossim.Sim) *gophercloud.ProviderClient {
	t.Helper()
	p, err := openstacksdk.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: sim.AuthURL(), Username: ossim.UserName, Password: ossim.UserPassword, TenantName: ossim.ProjectName, DomainName: "Default"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func network(t *testing.T, sim *ossim.Sim) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstacksdk.NewNetworkV2(operator(t, sim), gophercloud.EndpointOpts{Region: ossim.Region})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func octavia(t *testing.T, sim *ossim.Sim) *gophercloud.ServiceClient {
	t.Helper()
	client, err := openstacksdk.NewLoadBalancerV2(operator(t, sim), gophercloud.EndpointOpts{Region: ossim.Region})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func deleteLoadBalancer(ctx context.Context, client *gophercloud.ServiceClient, id string) error {
	return loadbalancers.Delete(ctx, client, id, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
}

// addRoutes adds "<destination> via <next hop>" to the router.
func addRoutes(t *testing.T, sim *ossim.Sim, names ...string) {
	t.Helper()
	all := extraRoutes(names)
	if _, err := extraroutes.Add(t.Context(), network(t, sim), sim.Defaults().RouterID, extraroutes.Opts{Routes: &all}).Extract(); err != nil {
		t.Fatal(err)
	}
}

func removeRoutes(t *testing.T, sim *ossim.Sim, names ...string) {
	t.Helper()
	all := extraRoutes(names)
	if _, err := extraroutes.Remove(t.Context(), network(t, sim), sim.Defaults().RouterID, extraroutes.Opts{Routes: &all}).Extract(); err != nil {
		t.Fatal(err)
	}
}

func extraRoutes(names []string) []routers.Route {
	var out []routers.Route
	for _, n := range names {
		destination, hop, _ := strings.Cut(n, " via ")
		out = append(out, routers.Route{DestinationCIDR: destination, NextHop: hop})
	}
	return out
}
