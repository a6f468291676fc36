package elb

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/keylock"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elb/plan"
)

const (
	// listAge is the age of the list of load balancers that is good enough, detailAge that of tags and attributes.
	listAge, detailAge = 30 * time.Second, 10 * time.Minute
)

// balancers are all classic load balancers, read at once for all Services. What was changed since is not among them.
type balancers struct {
	c *api.Client
	// turns has one Service read what many want.
	turns keylock.Locks[string]

	mu     sync.Mutex
	byName map[string]*types.LoadBalancerDescription // not edited
	read   time.Time
	// written is when load balancers were made or changed here that were not read since.
	written map[string]time.Time

	tagsOf       inventory.Memory[string, map[string]string]
	attributesOf inventory.Memory[string, plan.Attributes]
}

// get is a load balancer, nil for none; verify reads it anew.
func (b *balancers) get(ctx context.Context, name string, verify bool) (*types.LoadBalancerDescription, error) {
	if !verify {
		all, err := b.list(ctx, listAge)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		_, written := b.written[name]
		b.mu.Unlock()
		if !written {
			return all[name], nil
		}
	}
	began := time.Now()
	one, err := b.c.ClassicBalancer(ctx, name)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byName == nil || !b.written[name].Before(began) {
		return one, nil
	}
	delete(b.written, name)
	all := maps.Clone(b.byName)
	if all[name] = one; one == nil {
		delete(all, name)
	}
	b.byName = all
	return one, nil
}

// list is all load balancers as they were read; it must not be changed.
func (b *balancers) list(ctx context.Context, age time.Duration) (map[string]*types.LoadBalancerDescription, error) {
	since := time.Now().Add(-age)
	if all := b.readSince(since); all != nil {
		return all, nil
	}
	unlock, _, err := b.turns.Lock(ctx, "list")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if all := b.readSince(since); all != nil {
		return all, nil
	}
	began := time.Now()
	found, err := b.c.ClassicBalancers(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*types.LoadBalancerDescription, len(found))
	for i := range found {
		all[aws.ToString(found[i].LoadBalancerName)] = &found[i]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.written, func(_ string, at time.Time) bool { return at.Before(began) })
	b.byName, b.read = all, began
	return all, nil
}

// readSince is the list if it was read after a time, else nil.
func (b *balancers) readSince(since time.Time) map[string]*types.LoadBalancerDescription {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read.Before(since) {
		return nil
	}
	return b.byName
}

// changed has a load balancer read anew by whoever asks for it.
func (b *balancers) changed(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written == nil {
		b.written = map[string]time.Time{}
	}
	b.written[name] = time.Now()
}

// forget forgets a load balancer, with what is known of it.
func (b *balancers) forget(name string) {
	b.changed(name)
	b.tagsOf.Forget(name)
	b.attributesOf.Forget(name)
}

// ours is the form of names that Services' load balancers have.
var ours = regexp.MustCompile(`^a[0-9a-f]{31}$`)

// tags are a load balancer's tags. Those of others that may be Services' are read with them, as many as one request can ask about.
func (b *balancers) tags(ctx context.Context, name string, verify bool) (map[string]string, error) {
	if !verify {
		unlock, _, err := b.turns.Lock(ctx, "tags")
		if err != nil {
			return nil, err
		}
		defer unlock()
		if found, ok := b.tagsOf.Get(name, time.Now()); ok {
			return found, nil
		}
	}
	now, names := time.Now(), []string{name}
	if !verify {
		names = b.untold(name, now)
	}
	found, err := b.c.ClassicTags(ctx, names)
	if err != nil && len(names) > 1 { // one of the others may be gone by now
		found, err = b.c.ClassicTags(ctx, names[:1])
	}
	if err != nil {
		return nil, err
	}
	for one, tags := range found {
		b.tagsOf.Put(one, tags, now, now.Add(detailAge))
	}
	return found[name], nil
}

// untold are a load balancer and others whose tags are not known.
func (b *balancers) untold(name string, now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{name}
	for _, other := range slices.Sorted(maps.Keys(b.byName)) {
		if _, known := b.tagsOf.Get(other, now); !known && other != name && ours.MatchString(other) && len(names) < api.MaxTagged {
			names = append(names, other)
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
