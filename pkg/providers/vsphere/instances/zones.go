package instances

import (
	"context"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
)

// zones are where things are, by tags of themselves and of what they are in.
type zones struct {
	labels       config.Labels
	parents      map[api.Ref]api.Ref
	zone, region map[api.Ref]string
}

// readZones reads them, whatever the number of machines.
func (i *Instances) readZones(ctx context.Context) (*zones, error) {
	parents, err := i.c.Parents(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := i.c.Tags(ctx, i.labels.Zone, i.labels.Region)
	if err != nil {
		return nil, err
	}
	return &zones{labels: i.labels, parents: parents, zone: tags[i.labels.Zone], region: tags[i.labels.Region]}, nil
}

// maxDepth bounds how far up anything is followed.
const maxDepth = 100

// of is a machine's zone and region: those of its host and of what that is in, else of its pool, else of itself and its folders. As
// with the existing manager what is farther away counts more, up to where both are known.
func (z *zones) of(m *api.Machine) (zone, region string, err error) {
	for _, start := range []*api.Ref{m.Host, m.Pool, &m.Ref} {
		if start == nil {
			continue
		}
		zone, region, at := "", "", *start
		for range maxDepth {
			if t := z.zone[at]; t != "" {
				zone = t
			}
			if t := z.region[at]; t != "" {
				region = t
			}
			if zone != "" && region != "" {
				return zone, region, nil
			}
			next, ok := z.parents[at]
			if at == m.Ref && m.Parent != nil {
				next, ok = *m.Parent, true
			}
			if !ok {
				break
			}
			at = next
		}
	}
	return "", "", cloud.Errorf(cloud.KindInvalid, "neither the host of machine %q nor what that is in, its pool or its folders have tags of both categories, %s and %s: tag them, or remove labels from vsphere.conf",
		m.Name, z.labels.Zone, z.labels.Region)
}
