package openstack

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// How several regions are one cloud.
//
// [Global] region is the primary region; each section [Region "name"] adds one of the same
// Keystone, with the same login. Everything of this package works on one region and knows
// no other; the types regional… ask several of them and put the answers together:
//
//   - a provider ID that names a region is looked up there and nowhere else; one that names
//     none, where it was seen before, or else in the primary region and then in the others;
//     a bare name, in every region;
//   - what several regions were asked for is NotFound only when every one of them says so,
//     and KindConflict when two have it;
//   - regions are asked in parallel, each with its own calls, and one that does not answer
//     delays the others only once (regionGate) and never makes anything NotFound;
//   - load balancers live in the primary region, with the Nodes of that region as members.

// region is one region and its abilities.
type region struct {
	name      string
	instances *Instances
	volumes   *Volumes
	routes    cloud.Routes // nil without a router
	gates     struct{ instances, volumes, routes *regionGate }
}

// checkRegions checks the sections [Region] against the name of the primary region, which may
// come from clouds.yaml or the environment.
func checkRegions(file, primary string, cfg *Config) error {
	var errs []error
	if primary == "" && len(cfg.Region) > 0 {
		errs = append(errs, fmt.Errorf("%s: [Global] region: must be set where there are sections [Region \"name\"]: it is the primary region", file))
	}
	if _, ok := cfg.Region[primary]; ok && primary != "" {
		errs = append(errs, fmt.Errorf("%s: [Region %q]: this is the primary region, which [Global] names: remove the section", file, primary))
	}
	return errors.Join(errs...)
}

// inRegion is the client of a further region: the same login and configuration, save what
// the region's section says.
func (c *client) inRegion(s *auth.Session, name string, section *RegionConfig) *client {
	cfg := *c.cfg
	cfg.Route.RouterID = section.RouterID
	if len(section.InternalNetworkName) > 0 {
		cfg.Networking.InternalNetworkName = section.InternalNetworkName
	}
	if len(section.PublicNetworkName) > 0 {
		cfg.Networking.PublicNetworkName = section.PublicNetworkName
	}
	return &client{session: s.In(name), cfg: &cfg, regional: true}
}

// addRegions makes p the provider of all regions. The abilities of p are those of the primary.
func addRegions(p *cloud.Provider, c *client, s *auth.Session) {
	all := []*region{newRegion(c)}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Region)) {
		all = append(all, newRegion(c.inRegion(s, name, c.cfg.Region[name])))
	}
	all[0].routes = p.Routes
	instances := &regionalInstances{all: all}
	p.Instances, p.Volumes = instances, &regionalVolumes{Volumes: all[0].volumes, all: all}
	if slices.ContainsFunc(all, func(r *region) bool { return r.routes != nil }) {
		p.Routes = newRegionalRoutes(all)
	}
	if p.LoadBalancers != nil {
		p.LoadBalancers = &primaryLoadBalancers{LoadBalancers: p.LoadBalancers, primary: all[0].name}
	}
}

func newRegion(c *client) *region {
	r := &region{name: c.region(), instances: &Instances{c: c}, volumes: &Volumes{c: c}}
	for _, g := range []**regionGate{&r.gates.instances, &r.gates.volumes, &r.gates.routes} {
		*g = newRegionGate(r.name)
	}
	if len(c.cfg.Route.RouterID) > 0 {
		r.routes = newRoutes(c)
	}
	return r
}

// regionOf names the region of a provider ID, primary where it names none.
func regionOf(providerID, primary string) string {
	if _, name, err := ParseProviderID(providerID); err == nil && name != "" {
		return name
	}
	return primary
}

// names lists the names of regions.
func names(all []*region) string {
	var out []string
	for _, r := range all {
		out = append(out, r.name)
	}
	return strings.Join(out, ", ")
}
