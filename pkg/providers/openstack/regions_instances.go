package openstack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// maxHomes bounds what is remembered of servers.
const maxHomes = 50_000

// regionalInstances are the servers of several regions, the primary first.
type regionalInstances struct {
	all []*region

	mu sync.Mutex
	// homes are the regions in which servers were seen, by UUID, for provider IDs that name none:
	// a further region that is down does not keep the Nodes of the primary one.
	homes map[string]*region
}

var _ cloud.Instances = (*regionalInstances)(nil)

// askInstances asks one region about refs.
type askInstances func(ctx context.Context, i *Instances, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance]

// regionAnswer is what one region said about one ref.
type regionAnswer struct {
	region *region
	cloud.Result[*cloud.Instance]
}

// Find implements cloud.Instances: one Find in each region that is concerned, and a second
// one in the further regions for provider IDs that name no region and are not in the primary.
func (r *regionalInstances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	return r.lookup(ctx, refs, func(ctx context.Context, i *Instances, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
		return i.Find(ctx, refs)
	})
}

// Get implements cloud.Instances in the same way, with direct reads.
func (r *regionalInstances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	out := r.lookup(ctx, []cloud.InstanceRef{ref}, func(ctx context.Context, i *Instances, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
		instance, err := i.Get(ctx, refs[0])
		return []cloud.Result[*cloud.Instance]{{Value: instance, Err: err}}
	})
	return out[0].Value, out[0].Err
}

func (r *regionalInstances) lookup(ctx context.Context, refs []cloud.InstanceRef, ask askInstances) []cloud.Result[*cloud.Instance] {
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	first, rest := make([][]*region, len(refs)), make([][]*region, len(refs))
	for n, ref := range refs {
		first[n], rest[n], out[n].Err = r.where(ref)
	}
	answers := r.ask(ctx, refs, first, ask)
	for n := range refs { // on, where the first region does not have it
		if len(rest[n]) == 0 || !cloud.IsNotFound(answers[n][0].Err) {
			rest[n] = nil
		}
	}
	for n, more := range r.ask(ctx, refs, rest, ask) {
		answers[n] = append(answers[n], more...)
	}
	for n, ref := range refs {
		if out[n].Err == nil {
			out[n] = decide(ref, answers[n])
			r.remember(answers[n], out[n].Value)
		}
	}
	return out
}

// remember notes where a server is, also of one that was found by its name: its Node gets a
// provider ID next.
func (r *regionalInstances) remember(answers []regionAnswer, found *cloud.Instance) {
	if found == nil {
		return
	}
	id, _, err := ParseProviderID(found.ProviderID)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.homes) >= maxHomes || r.homes == nil {
		r.homes = map[string]*region{}
	}
	for _, a := range answers {
		if a.Value == found {
			r.homes[id] = a.region
		}
	}
}

// where says which regions to ask about ref, and which others then when it is not found.
func (r *regionalInstances) where(ref cloud.InstanceRef) (first, rest []*region, err error) {
	if ref.ProviderID == "" {
		return r.all, nil, nil
	}
	id, name, err := ParseProviderID(ref.ProviderID)
	if err != nil {
		return nil, nil, err
	}
	if name == "" {
		r.mu.Lock()
		home := r.homes[id]
		r.mu.Unlock()
		if home != nil {
			return []*region{home}, nil, nil
		}
		return r.all[:1], r.all[1:], nil
	}
	for n := range r.all {
		if r.all[n].name == name {
			return r.all[n : n+1], nil, nil
		}
	}
	return nil, nil, cloud.Errorf(cloud.KindInvalid, "provider ID %.200q is in region %.50q, which is none of %s; add [Region %q] to cloud.conf",
		ref.ProviderID, name, names(r.all), name)
}

// ask asks each region once, all of them in parallel, about the refs that where assigns it.
func (r *regionalInstances) ask(ctx context.Context, refs []cloud.InstanceRef, where [][]*region, ask askInstances) [][]regionAnswer {
	answers := make([][]regionAnswer, len(refs))
	type question struct {
		refs   []cloud.InstanceRef
		answer []func(cloud.Result[*cloud.Instance])
	}
	questions := map[*region]*question{}
	for n := range refs {
		answers[n] = make([]regionAnswer, len(where[n]))
		for k, reg := range where[n] {
			answers[n][k].region = reg
			q := questions[reg]
			if q == nil {
				q = &question{}
				questions[reg] = q
			}
			q.refs = append(q.refs, refs[n])
			q.answer = append(q.answer, func(r cloud.Result[*cloud.Instance]) { answers[n][k].Result = r })
		}
	}
	var g errgroup.Group
	for reg, q := range questions {
		g.Go(func() error {
			results := askRegion(ctx, reg.gates.instances, len(q.refs), func(ctx context.Context) []cloud.Result[*cloud.Instance] {
				return ask(ctx, reg.instances, q.refs)
			})
			for k, answer := range q.answer {
				answer(results[k])
			}
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	return answers
}

// decide makes one answer of those of the regions that were asked.
func decide(ref cloud.InstanceRef, answers []regionAnswer) cloud.Result[*cloud.Instance] {
	if len(answers) == 1 {
		return answers[0].Result
	}
	var found []regionAnswer
	var unsure, absent, empty error
	for _, a := range answers {
		switch {
		case a.Err == nil:
			found = append(found, a)
		case cloud.IsNotFound(a.Err):
			absent = a.Err
		case errors.Is(a.Err, errNoServers):
			empty = a.Err
		default:
			unsure = a.Err
		}
	}
	failed := func(err error) cloud.Result[*cloud.Instance] { return cloud.Result[*cloud.Instance]{Err: err} }
	for _, f := range found { // of servers of one name, the machine's own UUID tells which it is
		if ref.ProviderID == "" && ref.SystemUUID != "" && strings.HasSuffix(f.Value.ProviderID, "/"+strings.ToLower(ref.SystemUUID)) {
			return f.Result
		}
	}
	switch {
	case len(found) > 1:
		return failed(cloud.Errorf(cloud.KindConflict, "regions %s and %s both have a server for this node (%s and %s); rename one, or set the Node's provider ID",
			found[0].region.name, found[1].region.name, found[0].Value.ProviderID, found[1].Value.ProviderID))
	case len(found) == 1 && unsure != nil && ref.ProviderID == "":
		return failed(fmt.Errorf("region %s has a server of this name, but whether another region has one too is not known: %w", found[0].region.name, unsure))
	case len(found) == 1:
		return found[0].Result
	case unsure != nil:
		return failed(unsure)
	case absent == nil:
		return failed(empty)
	}
	// A provider ID without a region is one of the primary region as a rule, so that is the place
	// to have shown other servers. A name is of no region in particular.
	gone := &cloud.Error{Kind: cloud.KindNotFound, Err: fmt.Errorf("%d regions were asked: %v", len(answers), absent)} //nolint:errorlint // its scope is not this one's
	if ref.ProviderID != "" {
		gone.Scope = cloud.ScopeOf(answers[0].Err)
	}
	return failed(gone)
}
