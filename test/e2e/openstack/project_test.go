//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

const memberPassword = "e2e-member-password"

// makeProject makes a project of this run's own, so that what else goes on in the cloud
// neither disturbs the tests nor is disturbed by them: a user with a member's roles and an
// application credential, a network and a router.
func (c *realCloud) makeProject(ctx context.Context) error {
	name := fmt.Sprintf("isthmus-e2e-%d", time.Now().UnixNano())
	project, err := projects.Create(ctx, c.admin.identity, projects.CreateOpts{Name: name, DomainID: "default"}).Extract()
	if err != nil {
		return fmt.Errorf("create project %s: %w", name, err)
	}
	c.later(func(ctx context.Context) error {
		return errors.Join(c.removeGroups(ctx, project.ID), projects.Delete(ctx, c.admin.identity, project.ID).ExtractErr())
	})
	user, err := users.Create(ctx, c.admin.identity, users.CreateOpts{Name: name, Password: memberPassword, DomainID: "default"}).Extract()
	if err != nil {
		return fmt.Errorf("create user %s: %w", name, err)
	}
	c.later(func(ctx context.Context) error { return users.Delete(ctx, c.admin.identity, user.ID).ExtractErr() })
	for _, role := range []string{"member", "load-balancer_member", "creator"} {
		pages, err := roles.List(c.admin.identity, roles.ListOpts{Name: role}).AllPages(ctx)
		if err != nil {
			return err
		}
		id, err := only(roles.ExtractRoles(pages))(func(r roles.Role) string { return r.ID })
		if err != nil {
			return fmt.Errorf("role %s: %w", role, err)
		}
		if err := roles.Assign(ctx, c.admin.identity, id, roles.AssignOpts{UserID: user.ID, ProjectID: project.ID}).ExtractErr(); err != nil {
			return fmt.Errorf("assign role %s: %w", role, err)
		}
	}
	c.member, err = login(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: c.authURL, UserID: user.ID, Password: memberPassword, AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectID: project.ID},
	}, c.region)
	if err != nil {
		return err
	}
	if c.cred, err = c.newCredential(ctx, "ccm", nil); err != nil {
		return err
	}
	return c.makeNetwork(ctx)
}

// newCredential makes an application credential of the member, with an end where expires is not nil; it goes with the member.
func (c *realCloud) newCredential(ctx context.Context, name string, expires *time.Time) (appCred, error) {
	made, err := applicationcredentials.Create(ctx, c.member.identity, c.member.userID, applicationcredentials.CreateOpts{Name: name, ExpiresAt: expires}).Extract()
	if err != nil {
		return appCred{}, fmt.Errorf("create application credential %s: %w", name, err)
	}
	return appCred{ID: made.ID, Secret: made.Secret, AuthURL: c.authURL}, nil
}

func (c *realCloud) makeNetwork(ctx context.Context) error {
	net := c.member.network
	network, err := networks.Create(ctx, net, networks.CreateOpts{Name: "nodes"}).Extract()
	if err != nil {
		return fmt.Errorf("create network: %w", err)
	}
	c.networkID = network.ID
	c.later(func(ctx context.Context) error { return networks.Delete(ctx, net, network.ID).ExtractErr() })
	subnet, err := subnets.Create(ctx, net, subnets.CreateOpts{Name: "nodes", NetworkID: network.ID, CIDR: "10.7.0.0/16", IPVersion: gophercloud.IPv4}).Extract()
	if err != nil {
		return fmt.Errorf("create subnet: %w", err)
	}
	c.subnetID = subnet.ID
	router, err := routers.Create(ctx, net, routers.CreateOpts{Name: "nodes", GatewayInfo: &routers.GatewayInfo{NetworkID: c.externalID}}).Extract()
	if err != nil {
		return fmt.Errorf("create router: %w", err)
	}
	c.routerID = router.ID
	c.later(func(ctx context.Context) error { return routers.Delete(ctx, net, router.ID).ExtractErr() })
	if _, err := routers.AddInterface(ctx, net, router.ID, routers.AddInterfaceOpts{SubnetID: subnet.ID}).Extract(); err != nil {
		return fmt.Errorf("put the router into the subnet: %w", err)
	}
	c.later(func(ctx context.Context) error {
		_, err := routers.RemoveInterface(ctx, net, router.ID, routers.RemoveInterfaceOpts{SubnetID: subnet.ID}).Extract()
		return err
	})
	return nil
}

func (c *realCloud) later(f func(context.Context) error) { c.undo = append(c.undo, f) }

// removeProject undoes makeProject, and goes on when a step fails.
func (c *realCloud) removeProject(ctx context.Context) error {
	var errs []error
	for len(c.undo) > 0 {
		last := len(c.undo) - 1
		if err := c.undo[last](ctx); err != nil && !gophercloud.ResponseCodeIs(err, 404) {
			errs = append(errs, fmt.Errorf("remove the tests' project: %w", err))
		}
		c.undo = c.undo[:last]
	}
	return errors.Join(errs...)
}

// removeGroups removes the security groups that Neutron makes for every project.
func (c *realCloud) removeGroups(ctx context.Context, projectID string) error {
	pages, err := groups.List(c.admin.network, groups.ListOpts{ProjectID: projectID}).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := groups.ExtractGroups(pages)
	for _, g := range all {
		err = errors.Join(err, groups.Delete(ctx, c.admin.network, g.ID).ExtractErr())
	}
	return err
}
