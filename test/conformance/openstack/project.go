package openstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	sdk "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
)

// MakeProject makes a project that nobody else uses, and a user who is its member; admin may
// make such. remove removes both, and the security groups that Neutron has made.
func MakeProject(ctx context.Context, admin Access) (a Access, remove func(context.Context) error, err error) {
	client, err := sdk.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: admin.AuthURL, Username: admin.User, Password: admin.Password, DomainName: "Default", TenantName: admin.Project, AllowReauth: true,
	})
	if err != nil {
		return a, nil, fmt.Errorf("log in as %s: %w", admin.User, err)
	}
	where := gophercloud.EndpointOpts{Region: admin.Region}
	keystone, err := sdk.NewIdentityV3(client, where)
	if err != nil {
		return a, nil, err
	}
	neutron, err := sdk.NewNetworkV2(client, where)
	if err != nil {
		return a, nil, err
	}
	name := fmt.Sprintf("conformance-%d", time.Now().UnixNano())
	p, err := projects.Create(ctx, keystone, projects.CreateOpts{Name: name, DomainID: "default"}).Extract()
	if err != nil {
		return a, nil, fmt.Errorf("make project: %w", err)
	}
	u, err := users.Create(ctx, keystone, users.CreateOpts{Name: name, Password: name, DomainID: "default"}).Extract()
	if err != nil {
		return a, nil, errors.Join(fmt.Errorf("make user: %w", err), projects.Delete(ctx, keystone, p.ID).ExtractErr())
	}
	remove = func(ctx context.Context) error {
		pages, err := groups.List(neutron, groups.ListOpts{ProjectID: p.ID}).AllPages(ctx)
		errs := []error{err}
		if err == nil {
			all, err := groups.ExtractGroups(pages)
			errs = append(errs, err)
			for _, g := range all {
				errs = append(errs, gone(groups.Delete(ctx, neutron, g.ID).ExtractErr()))
			}
		}
		errs = append(errs, gone(users.Delete(ctx, keystone, u.ID).ExtractErr()), gone(projects.Delete(ctx, keystone, p.ID).ExtractErr()))
		return errors.Join(errs...)
	}
	for _, role := range []string{"member", "load-balancer_member", "creator"} {
		if err := assign(ctx, keystone, role, u.ID, p.ID); err != nil {
			return a, nil, errors.Join(err, remove(ctx))
		}
	}
	return Access{AuthURL: admin.AuthURL, Region: admin.Region, User: name, Password: name, Project: name}, remove, nil
}

func assign(ctx context.Context, keystone *gophercloud.ServiceClient, role, user, project string) error {
	pages, err := roles.List(keystone, roles.ListOpts{Name: role}).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := roles.ExtractRoles(pages)
	if err != nil || len(all) != 1 {
		return fmt.Errorf("role %s: there are %d of that name: %w", role, len(all), err)
	}
	if err := roles.Assign(ctx, keystone, all[0].ID, roles.AssignOpts{UserID: user, ProjectID: project}).ExtractErr(); err != nil {
		return fmt.Errorf("give role %s: %w", role, err)
	}
	return nil
}
