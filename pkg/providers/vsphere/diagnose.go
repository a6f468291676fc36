package vsphere

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/zones"
)

// needed are the privileges that the guide's role has, beside those that each user has.
func needed() []string { return []string{"System.View", "System.Read", "Cns.Searchable"} }

// diagnosis implements cloud.Provider.Diagnose of one vCenter.
type diagnosis struct {
	c      *api.Client
	labels config.Labels
}

func (d *diagnosis) run(ctx context.Context) (out cloud.Diagnosis, err error) {
	var errs []error
	add := func(problems []cloud.Problem, err error) {
		out.Problems, errs = append(out.Problems, problems...), append(errs, err)
	}
	found, problems, err := d.datacenters(ctx)
	add(problems, err)
	lacking, err := d.c.Lacking(ctx, found, needed())
	switch {
	case cloud.KindOf(err) == cloud.KindDenied:
		out.Unseen = append(out.Unseen, "privileges: "+err.Error())
	case err != nil:
		errs = append(errs, err)
	}
	for _, on := range slices.SortedFunc(maps.Keys(lacking), func(a, b api.Ref) int { return strings.Compare(a.String(), b.String()) }) {
		out.Problems = append(out.Problems, cloud.Problem{Object: d.c.Place() + " " + on.String(), What: "the user lacks there " + strings.Join(lacking[on], ", "),
			Next: "give the user the role of the guide to vSphere there, and let it propagate: Cns.Searchable and System.Read are for volumes, machines, hosts and tags"})
	}
	if len(problems) == 0 { // else there is nowhere to look for machines
		add(d.machines(ctx))
	}
	if d.labels.On() {
		add(d.zones(ctx))
	}
	return out, errors.Join(errs...)
}

func (d *diagnosis) datacenters(ctx context.Context) (found []api.Ref, problems []cloud.Problem, err error) {
	var errs []error
	names, results := d.c.Datacenters(ctx)
	for n, r := range results {
		switch {
		case r.Err == nil:
			found = append(found, r.Value)
		case cloud.KindOf(r.Err) == cloud.KindInvalid:
			problems = append(problems, cloud.Problem{Object: "datacenter " + names[n], What: r.Err.Error(), Next: "correct datacenters in vsphere.conf, or let the user see it: System.View and System.Read"})
		default:
			errs = append(errs, r.Err)
		}
	}
	return found, problems, errors.Join(errs...)
}

func (d *diagnosis) machines(ctx context.Context) ([]cloud.Problem, error) {
	all, err := d.c.Identities(ctx)
	if err != nil {
		return d.denied("machines", err)
	}
	if len(all) > 0 {
		return nil, nil
	}
	return []cloud.Problem{{Object: d.c.Place(), What: "it shows no machine at all", Next: "give the user the role of the guide to vSphere on the datacenters, and let it propagate; correct datacenters in vsphere.conf"}}, nil
}

// zones reads where hosts are.
func (d *diagnosis) zones(ctx context.Context) ([]cloud.Problem, error) {
	z, err := zones.New(d.c, d.labels).Get(ctx)
	if cloud.KindOf(err) == cloud.KindInvalid {
		return []cloud.Problem{{Object: "categories " + d.labels.Zone + " and " + d.labels.Region, What: err.Error() + ": Nodes are not initialized", Next: "correct labels in vsphere.conf, make the category, or let the user read it: System.Read on it, or globally"}}, nil
	}
	if err != nil {
		return d.denied("tags", err)
	}
	if len(z.Hosts()) > 0 {
		return nil, nil
	}
	return []cloud.Problem{{Object: "categories " + d.labels.Zone + " and " + d.labels.Region, What: fmt.Sprintf("no host that the user sees has, or is in what has, tags of both, which labels in vsphere.conf names: Nodes are not initialized (%d tags of zones, %d of regions are seen)", len(z.Zone), len(z.Region)),
		Next: "tag hosts, or the clusters, folders and datacenters that they are in, or remove labels"}}, nil
}

// denied makes a problem of a read that is denied.
func (d *diagnosis) denied(what string, err error) ([]cloud.Problem, error) {
	if cloud.KindOf(err) != cloud.KindDenied {
		return nil, err
	}
	return []cloud.Problem{{Object: d.c.Place() + " " + what, What: err.Error(), Next: "give the user the role of the guide to vSphere, and let it propagate"}}, nil
}
