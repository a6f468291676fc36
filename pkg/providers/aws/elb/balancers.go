package elb

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
)

const (
	// listAge is the age of the list of load balancers that is good enough, detailAge that of tags and attributes.
	listAge, detailAge = 30 * time.Second, 10 * time.Minute
)

// balancers are all classic load balancers, read at once for all Services.
type balancers struct {
	c            *api.Client
	all          inventory.Value[map[string]*balancer] // by name, not edited
	tagReads     *batcher.Batcher[tagsAsked, cloud.Result[map[string]string]]
	tagsOf       inventory.Memory[string, map[string]string]
	attributesOf inventory.Memory[string, plan.Attributes]
	// going are those that are being deleted here, or were, and may be in all.
	going inventory.Memory[string, struct{}]
}

// balancer is a load balancer as it was read, not edited. What was made or changed here since then has to be read anew.
type balancer struct {
	read    *types.LoadBalancerDescription
	changed bool
}

// tagsAsked is whose tags are asked for, and whether those that are remembered will not do.
type tagsAsked struct {
	name   string
	verify bool
}

func newBalancers(c *api.Client) *balancers {
	b := &balancers{c: c, tagReads: batcher.New[tagsAsked, cloud.Result[map[string]string]](batcher.Options{})}
	b.all.Read = c.Keep("classic_load_balancers")
	return b
}

// get is a load balancer, nil for none; verify reads it anew.
func (b *balancers) get(ctx context.Context, name string, verify bool) (*types.LoadBalancerDescription, error) {
	before := b.all.Known()[name]
	if !verify {
		all, err := b.all.Get(ctx, listAge, b.list)
		if err != nil || all[name] == nil {
			return nil, err
		}
		if before = all[name]; !before.changed {
			return before.read, nil
		}
	}
	one, err := b.c.ClassicBalancer(ctx, name)
	if err != nil {
		return nil, err
	}
	b.put(name, func(now *balancer) *balancer {
		switch {
		case now != before: // it was changed again, or read
			return now
		case one == nil:
			return nil
		}
		return &balancer{read: one}
	})
	return one, nil
}

// list reads all load balancers.
func (b *balancers) list(ctx context.Context) (map[string]*balancer, error) {
	found, err := b.c.ClassicBalancers(ctx)
	all := make(map[string]*balancer, len(found))
	for i := range found {
		all[aws.ToString(found[i].LoadBalancerName)] = &balancer{read: &found[i]}
	}
	return all, err
}

// put enters what becomes of a load balancer into the list, nil for that it is gone.
func (b *balancers) put(name string, next func(*balancer) *balancer) {
	b.all.Edit(func(all map[string]*balancer) map[string]*balancer {
		all = maps.Clone(all)
		if all[name] = next(all[name]); all[name] == nil {
			delete(all, name)
		}
		return all
	})
}

// changed has a load balancer read anew by whoever asks for it.
func (b *balancers) changed(name string) {
	unread := &balancer{changed: true}
	b.put(name, func(*balancer) *balancer { return unread })
}

// forget forgets a load balancer, with what is known of it.
func (b *balancers) forget(name string) {
	b.changed(name)
	b.tagsOf.Forget(name)
	b.attributesOf.Forget(name)
}

// goes notes that a load balancer is being deleted.
func (b *balancers) goes(name string) {
	now := time.Now()
	b.going.Put(name, struct{}{}, now, now.Add(2*listAge))
}

// others reports whether other load balancers than that of the name have a security group, and stay. Of two that go at the same time
// the one that is asked about last has none beside it. Of those that were made or changed here, the rules in the groups of Nodes tell.
func (b *balancers) others(ctx context.Context, name, group string) (bool, error) {
	all, err := b.all.Get(ctx, listAge, b.list)
	if err != nil {
		return false, err
	}
	for other, one := range all {
		if other == name || one.changed || !slices.Contains(one.read.SecurityGroups, group) {
			continue
		}
		if _, going := b.going.Get(other, time.Now()); !going {
			return true, nil
		}
	}
	return false, nil
}

// ours is the form of names that Services' load balancers have.
var ours = regexp.MustCompile(`^a[0-9a-f]{31}$`)

// tags are a load balancer's tags; verify reads them anew. They are read with those that others ask for at the same time.
func (b *balancers) tags(ctx context.Context, name string, verify bool) (map[string]string, error) {
	if found, ok := b.tagsOf.Get(name, time.Now()); ok && !verify {
		return found, nil
	}
	asked := tagsAsked{name, verify}
	all, err := b.tagReads.Do(ctx, []tagsAsked{asked}, b.readTags)
	if err != nil {
		return nil, err
	}
	return all[asked].Value, all[asked].Err
}

// readTags reads the tags of load balancers, and where a request has room of others that may be Services'.
func (b *balancers) readTags(ctx context.Context, asked []tagsAsked) map[tagsAsked]cloud.Result[map[string]string] {
	now, out := time.Now(), make(map[tagsAsked]cloud.Result[map[string]string], len(asked))
	of := map[string][]tagsAsked{}
	for _, a := range asked {
		if found, ok := b.tagsOf.Get(a.name, now); ok && !a.verify { // others have asked meanwhile
			out[a] = cloud.Result[map[string]string]{Value: found}
			continue
		}
		of[a.name] = append(of[a.name], a)
	}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(of)), api.MaxTagged) {
		found, err := b.c.ClassicTags(ctx, append(names, b.untold(of, now, api.MaxTagged-len(names))...))
		for _, name := range names {
			r := cloud.Result[map[string]string]{Value: found[name], Err: err}
			if cloud.IsNotFound(err) { // one of the others may be gone by now
				found, r.Err = b.c.ClassicTags(ctx, []string{name})
				r.Value = found[name]
			}
			for _, a := range of[name] {
				out[a] = r
			}
		}
		for name, tags := range found {
			b.tagsOf.Put(name, tags, now, now.Add(detailAge))
		}
	}
	return out
}

// untold are so many load balancers whose tags are neither known nor asked for.
func (b *balancers) untold(asked map[string][]tagsAsked, now time.Time, most int) []string {
	var names []string
	all := b.all.Known()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, known := b.tagsOf.Get(name, now); !known && !all[name].changed && asked[name] == nil && ours.MatchString(name) && len(names) < most {
			names = append(names, name)
		}
	}
	return names
}

// attributes are a load balancer's attributes.
func (b *balancers) attributes(ctx context.Context, name string, verify bool) (plan.Attributes, error) {
	now := time.Now()
	if found, ok := b.attributesOf.Get(name, now); ok && !verify {
		return found, nil
	}
	read, err := b.c.ClassicAttributes(ctx, name)
	if err != nil {
		return plan.Attributes{}, err
	}
	found := observedAttributes(read)
	b.attributesOf.Put(name, found, now, now.Add(detailAge))
	return found, nil
}
