package openstack_test

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// A further region has the Keystone, the users and the project of the first one, and
// everything else for itself.
func TestFurtherRegion(t *testing.T) {
	one := ossim.ForTest(t)
	two := ossim.ForTest(t, ossim.Options{Keystone: one, Region: "RegionTwo"})
	one.SeedServers(ossim.Seed{Count: 2, NamePrefix: "one-"})
	two.SeedServers(ossim.Seed{Count: 3, NamePrefix: "two-"})
	provider := login(t, one, password(one))
	for region, want := range map[string]int{ossim.Region: 2, "RegionTwo": 3} {
		client, err := openstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: region})
		if err != nil {
			t.Fatal(err)
		}
		pages, err := servers.List(client, servers.ListOpts{}).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if list, err := servers.ExtractServers(pages); err != nil || len(list) != want {
			t.Errorf("region %s has %d servers (%v), want %d", region, len(list), err, want)
		}
	}
	one.ExpireTokens()
	if n := two.Count("compute", ""); n == 0 {
		t.Error("the second region was not asked")
	}
	if _, err := ossim.Start(ossim.Options{Region: "x"}); err == nil {
		t.Error("a region without a Keystone starts")
	}
}
