//go:build e2e && occm

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/record"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/golden"
)

var occmVersion = flag.String("occm-version", "", "the version of that binary, where it does not know it")

// theName is what recordings call the cloud.
const theName = "OpenStack Zed"

// TestRecordingsHoldOnTheRealCloud has openstack-cloud-controller-manager do here what it did in the simulator: after
// each step the cloud and the API hold the same. With -update it writes what they hold.
func TestRecordingsHoldOnTheRealCloud(t *testing.T) {
	if *occmPath == "" {
		t.Fatal("-occm is not given: make e2e-openstack OCCM=PATH")
	}
	testdata := filepath.Join("..", "..", "differential", "openstack", "testdata")
	version := *occmVersion
	if version == "" {
		var err error
		if version, err = differential.Version(t.Context(), *occmPath); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range script.RealGroups() {
		t.Run(g.Name, func(t *testing.T) {
			simulated, err := recording.Read(recording.SimulatorLike(testdata), g.Name)
			if err != nil {
				t.Fatal(err)
			}
			real := recordHere(t, &g, version)
			if golden.Updating() {
				if err := real.Write(filepath.Join(testdata, recording.Real)); err != nil {
					t.Fatal(err)
				}
			}
			rest, _, err := difference.CompareRecordings(&g, simulated, real)
			if err != nil {
				t.Fatal(err)
			}
			if len(rest) > 0 {
				t.Errorf("OCCM did otherwise here than in the simulator:\n%s", strings.Join(rest, "\n"))
			}
		})
	}
}

// recordHere plays a group with openstack-cloud-controller-manager in the tests' project.
func recordHere(t *testing.T, g *script.Group, version string) *recording.Recording {
	t.Helper()
	c := newCluster(t)
	place := c.cloud.place(c.servers(g.Servers())) // their names are those of the scenarios' Nodes
	place.Symbols.Set("ext.1", c.cloud.floatingSubnet(t))
	for i := 1; i <= 9; i++ {
		place.Symbols.Set(fmt.Sprintf("wish.%d", i), fmt.Sprintf("10.7.60.%d", i))
		place.Symbols.Set(fmt.Sprintf("wish-fip.%d", i), fmt.Sprintf("172.24.190.%d", i))
	}
	place.Global = c.userConf()
	t.Cleanup(func() {
		c.sweep()
		if err := c.cloud.sweepGroups(); err != nil {
			t.Errorf("clean the cloud up: %v", err)
		}
	})
	r := &record.Recorder{
		Binary: *occmPath, Version: version, Plane: c.plane, Workers: 8,
		Env: []string{"OCCM_WAIT_LB_ACTIVE_STEPS=40"}, // hours: a busy Octavia is no failure here
	}
	out, err := r.RecordAt(t.Context(), g, place, func() (all, open int) {
		return len(accepted(mutations(c.proxy.since(0)))), c.proxy.pending()
	})
	if err != nil {
		t.Fatal(err)
	}
	out.Cloud = theName
	return out
}

// floatingSubnet is the subnet of the external network.
func (c *realCloud) floatingSubnet(t *testing.T) string {
	t.Helper()
	pages, err := subnets.List(c.admin.network, subnets.ListOpts{NetworkID: c.externalID}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := only(subnets.ExtractSubnets(pages))(func(s subnets.Subnet) string { return s.ID })
	if err != nil {
		t.Fatalf("subnets of the external network: %v", err)
	}
	return id
}

// sweepGroups removes the security groups that OCCM leaves behind on the ports of Nodes that have left.
func (c *realCloud) sweepGroups() error {
	return c.cleanup(func(ctx context.Context) error {
		net, project := c.member.network, c.member.projectID
		pages, err := groups.List(net, groups.ListOpts{ProjectID: project}).AllPages(ctx)
		if err != nil {
			return err
		}
		left, err := groups.ExtractGroups(pages)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(g groups.SecGroup) bool { return g.Name == "default" })
		if pages, err = ports.List(net, ports.ListOpts{ProjectID: project}).AllPages(ctx); err != nil {
			return err
		}
		all, err := ports.ExtractPorts(pages)
		if err != nil {
			return err
		}
		for _, p := range all {
			kept := slices.DeleteFunc(slices.Clone(p.SecurityGroups), func(id string) bool {
				return slices.ContainsFunc(left, func(g groups.SecGroup) bool { return g.ID == id })
			})
			if len(kept) < len(p.SecurityGroups) {
				_, e := ports.Update(ctx, net, p.ID, ports.UpdateOpts{SecurityGroups: &kept}).Extract()
				err = errors.Join(err, e)
			}
		}
		for _, g := range left {
			err = errors.Join(err, groups.Delete(ctx, net, g.ID).ExtractErr())
		}
		return err
	})
}
