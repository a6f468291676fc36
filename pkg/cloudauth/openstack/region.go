package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
)

// Require returns nil when the catalog has endpoints of all the services, and otherwise what
// is missing and what to do. It authenticates at most once, as Service does.
func (s *Session) Require(ctx context.Context, services ...string) error {
	return (&Region{session: s, primary: true}).Require(ctx, services...)
}

// Regions lists the regions of the catalog.
func (s *Session) Regions(ctx context.Context) ([]string, error) {
	_, _, catalog, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.regions(), nil
}

// Region is a Session in another region: the same login and token, other endpoints.
type Region struct {
	session *Session
	name    string
	primary bool // the Session's own
}

// In returns the Session in the region of that name.
func (s *Session) In(region string) *Region { return &Region{session: s, name: region} }

// Region returns the region's name.
func (r *Region) Region() string { return r.name }

// Service is Session.Service in this region.
func (r *Region) Service(ctx context.Context, service string) (*gophercloud.ServiceClient, error) {
	pc, catalog, err := r.ready(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.client(service, pc)
}

// Require is Session.Require in this region.
func (r *Region) Require(ctx context.Context, services ...string) error {
	pc, catalog, err := r.ready(ctx)
	if err != nil {
		return err
	}
	for _, service := range services {
		if _, err := catalog.client(service, pc); err != nil {
			return err
		}
	}
	return nil
}

func (r *Region) ready(ctx context.Context) (*gophercloud.ProviderClient, *catalog, error) {
	_, pc, catalog, err := r.session.ready(ctx)
	if err == nil && !r.primary {
		catalog = catalog.in(r.name)
	}
	return pc, catalog, err
}
