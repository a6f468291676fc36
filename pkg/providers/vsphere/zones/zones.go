// Package zones answers where things of a vCenter are, by tags of two categories that they have or that what they are in has.
package zones

import (
	"context"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/config"
)

// age is for how long it is believed where tags are, and what is in what; doubt is that for what is in no zone, as somebody may have
// attached a tag.
const (
	age   = 5 * time.Minute
	doubt = 10 * time.Second
)

// limit bounds a read of them, of however many requests.
const limit = 2 * time.Minute

// Reader reads a vCenter's zones when somebody asks. It may be used concurrently.
type Reader struct {
	c      *api.Client
	labels config.Labels
	known  inventory.Value[*Zones]
}

// New makes the Reader of a vCenter.
func New(c *api.Client, labels config.Labels) *Reader {
	r := &Reader{c: c, labels: labels}
	if labels.On() {
		r.known.Read = c.Keep("zones")
	}
	return r
}

// On reports whether there are categories for zones; without, nothing is to be asked.
func (r *Reader) On() bool { return r.labels.On() }

// Labels are the names of the categories.
func (r *Reader) Labels() config.Labels { return r.labels }

// Get returns what was read within five minutes, or reads it: some calls, whatever the number of machines.
func (r *Reader) Get(ctx context.Context) (*Zones, error) { return r.known.Get(ctx, age, r.read) }

// Find is the zone and the region of something, whose ways up begin with the given ones: the first way that knows both counts. As with
// the existing manager what is farther up a way counts more, up to where both are known. Both are empty where no way knows both.
func (r *Reader) Find(ctx context.Context, ways ...[]api.Ref) (zone, region string, err error) {
	for _, maxAge := range []time.Duration{age, doubt} {
		z, err := r.known.Get(ctx, maxAge, r.read)
		if err != nil {
			return "", "", err
		}
		if zone, region = z.of(ways...); zone != "" {
			break
		}
	}
	return zone, region, nil
}

func (r *Reader) read(ctx context.Context) (*Zones, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	parents, err := r.c.Parents(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := r.c.Tags(ctx, r.labels.Zone, r.labels.Region)
	if err != nil {
		return nil, err
	}
	return &Zones{Parents: parents, Zone: tags[r.labels.Zone], Region: tags[r.labels.Region]}, nil
}

// Zones are where things are.
type Zones struct {
	// Parents has what each host, cluster, pool, folder and datacenter is in.
	Parents map[api.Ref]api.Ref
	// Zone and Region are the tags of objects that have one.
	Zone, Region map[api.Ref]string
}

// maxDepth bounds how far up anything is followed.
const maxDepth = 100

func (z *Zones) of(ways ...[]api.Ref) (zone, region string) {
	for _, way := range ways {
		if zone, region := z.up(way); zone != "" && region != "" {
			return zone, region
		}
	}
	return "", ""
}

func (z *Zones) up(way []api.Ref) (zone, region string) {
	for n := range maxDepth {
		if n >= len(way) {
			next, ok := z.Parents[way[len(way)-1]]
			if !ok {
				break
			}
			way = append(way[:len(way):len(way)], next)
		}
		if t := z.Zone[way[n]]; t != "" {
			zone = t
		}
		if t := z.Region[way[n]]; t != "" {
			region = t
		}
		if zone != "" && region != "" {
			break
		}
	}
	return zone, region
}

// Hosts are the hosts of each zone, with its region.
func (z *Zones) Hosts() map[Place][]api.Ref {
	out := map[Place][]api.Ref{}
	for ref := range z.Parents {
		if ref.Type != "HostSystem" {
			continue
		}
		if zone, region := z.of([]api.Ref{ref}); zone != "" {
			out[Place{zone, region}] = append(out[Place{zone, region}], ref)
		}
	}
	return out
}

// Place is a zone of a region.
type Place struct{ Zone, Region string }
