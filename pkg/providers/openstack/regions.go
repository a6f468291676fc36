package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/places"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// How several regions are one cloud.
//
// [Global] region is the primary region; each section [Region "name"] adds one of the same
// Keystone, with the same login. Everything of this package works on one region and knows
// no other; pkg/cloud/places makes one provider of theirs.

// checkRegions checks the sections [Region] against the name of the primary region, which may
// come from clouds.yaml or the environment.
func checkRegions(file, primary string, cfg *config.Config) error {
	var errs []error
	if primary == "" {
		errs = append(errs, fmt.Errorf("%s: [Global] region: must be set where there are sections [Region \"name\"]: it is the primary region", file))
	}
	if _, ok := cfg.Region[primary]; ok && primary != "" {
		errs = append(errs, fmt.Errorf("%s: [Region %q]: this is the primary region, which [Global] names: remove the section", file, primary))
	}
	return errors.Join(errs...)
}

// joinRegions makes p, the provider of the primary region, the one of all regions.
func joinRegions(p *cloud.Provider, cfg *config.Config, s *auth.Session) {
	primary := *p
	all := []places.Place{{Name: s.Region(), Provider: &primary}}
	for _, name := range slices.Sorted(maps.Keys(cfg.Region)) {
		all = append(all, places.Place{Name: name, Provider: inRegion(cfg, s.In(name), cfg.Region[name])})
	}
	places.Join(p, all, places.Words{
		Place:     "region",
		Add:       func(name string) string { return fmt.Sprintf("add [Region %q] to cloud.conf", name) },
		AddRoutes: func(name string) string { return fmt.Sprintf("set router-id in [Region %q] of cloud.conf", name) },
	}, func(ref cloud.InstanceRef) string {
		_, region, _ := providerid.Parse(ref.ProviderID) // whoever is asked about a wrong one says so
		return region
	})
}

// inRegion is the provider of a further region: the same login and configuration, save what
// the region's section says. Load balancers live in the primary region.
func inRegion(primary *config.Config, r *auth.Region, section *config.Region) *cloud.Provider {
	cfg := *primary
	cfg.LoadBalancer.Enabled = false
	cfg.Route.RouterID = section.RouterID
	if len(section.InternalNetworkName) > 0 {
		cfg.Networking.InternalNetworkName = section.InternalNetworkName
	}
	if len(section.PublicNetworkName) > 0 {
		cfg.Networking.PublicNetworkName = section.PublicNetworkName
	}
	c := api.New(r)
	p := compose(c, &cfg, true)
	p.Diagnose = (&diagnosis{client: c, cfg: &cfg}).run
	p.Ready = func(ctx context.Context) error {
		if err := r.Require(ctx, neededServices...); err != nil {
			return fmt.Errorf("[Region %q] of cloud.conf: %w", r.Region(), err)
		}
		return nil
	}
	return p
}
