package places

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// maxHomes bounds what is remembered of instances; then all is forgotten, and found again.
const maxHomes = 50_000

// place is one that has instances, as each has.
type place = member[cloud.Instances]

// instances are those of all places.
type instances struct {
	*joined
	places []*place

	mu sync.Mutex
	// homes are the places in which instances were seen, by provider IDs that tell none: a
	// further place that is down does not keep the Nodes of the others.
	homes map[string]*place
}

var _ cloud.Instances = (*instances)(nil)

func newInstances(j *joined) *instances {
	return &instances{joined: j, homes: map[string]*place{},
		places: membersOf(j, func(p Place) (cloud.Instances, bool) { return p.Instances, true })}
}

// answer is what one place said about one ref.
type answer struct {
	place *place
	cloud.Result[*cloud.Instance]
}

// question asks one place about refs.
type question func(ctx context.Context, i cloud.Instances, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance]

// Find implements cloud.Instances: one Find in each place that is concerned, and a second one in
// the further places for provider IDs that tell no place and are not in the first.
func (i *instances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	return i.lookup(ctx, refs, func(ctx context.Context, i cloud.Instances, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
		return i.Find(ctx, refs)
	})
}

// Get implements cloud.Instances in the same way, with direct reads.
func (i *instances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	out := i.lookup(ctx, []cloud.InstanceRef{ref}, func(ctx context.Context, i cloud.Instances, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
		return one(i.Get(ctx, refs[0]))
	})
	return out[0].Value, out[0].Err
}

func (i *instances) lookup(ctx context.Context, refs []cloud.InstanceRef, ask question) []cloud.Result[*cloud.Instance] {
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	first, rest := make([][]*place, len(refs)), make([][]*place, len(refs))
	for n, ref := range refs {
		first[n], rest[n], out[n].Err = i.where(ref)
	}
	answers := i.ask(ctx, refs, first, ask)
	for n := range refs { // on, where the first place does not have it
		a := &answers[n]
		off := i.words.Moves && len(*a) == 1 && (*a)[0].Err == nil && (*a)[0].Value.Shutdown // it may be a copy of one that runs elsewhere
		if len(rest[n]) == 0 || !off && !cloud.IsNotFound((*a)[0].Err) {
			rest[n] = nil
		}
	}
	for n, more := range i.ask(ctx, refs, rest, ask) {
		answers[n] = append(answers[n], more...)
	}
	for n, ref := range refs {
		if out[n].Err == nil {
			out[n] = i.decide(ref, answers[n])
			i.remember(ref, answers[n], out[n].Value)
		}
	}
	return out
}

// remember notes where an instance is, also of one that was found by its name: its Node gets a
// provider ID next.
func (i *instances) remember(ref cloud.InstanceRef, answers []answer, found *cloud.Instance) {
	if found == nil {
		return
	}
	id := found.ProviderID
	if ref.ProviderID != "" {
		id = ref.ProviderID
	}
	if i.of(cloud.InstanceRef{ProviderID: id}) != "" {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.homes) >= maxHomes {
		clear(i.homes)
	}
	for _, a := range answers {
		if a.Value == found {
			i.homes[id] = a.place
		}
	}
}

// where says which places to ask about ref, and which others then when it is not found.
func (i *instances) where(ref cloud.InstanceRef) (first, rest []*place, err error) {
	name := i.of(ref)
	if name == "" && ref.ProviderID == "" {
		return i.places, nil, nil
	}
	if name == "" {
		i.mu.Lock()
		home := i.homes[ref.ProviderID]
		i.mu.Unlock()
		if home != nil && i.words.Moves {
			return []*place{home}, slices.DeleteFunc(slices.Clone(i.places), func(p *place) bool { return p == home }), nil
		}
		if home != nil {
			return []*place{home}, nil, nil
		}
		return i.places[:1], i.places[1:], nil
	}
	for n := range i.places {
		if i.places[n].name == name {
			return i.places[n : n+1], nil, nil
		}
	}
	return nil, nil, cloud.Errorf(cloud.KindInvalid, "provider ID %.200q is in %s %.50q, which is none of %s; %s",
		ref.ProviderID, i.words.Place, name, i.names(), i.words.Add(name))
}

// ask asks each place once, all of them in parallel, about the refs that where assigns it.
func (i *instances) ask(ctx context.Context, refs []cloud.InstanceRef, where [][]*place, put question) [][]answer {
	answers := make([][]answer, len(refs))
	asked := map[*place][]cloud.InstanceRef{}
	into := map[*place][]*answer{}
	for n := range refs {
		answers[n] = make([]answer, len(where[n]))
		for k, p := range where[n] {
			answers[n][k].place = p
			asked[p], into[p] = append(asked[p], refs[n]), append(into[p], &answers[n][k])
		}
	}
	var g errgroup.Group
	for p, refs := range asked {
		g.Go(func() error {
			results := ask(ctx, p.gate, len(refs), func(ctx context.Context) []cloud.Result[*cloud.Instance] { return put(ctx, p.next, refs) })
			for k, a := range into[p] {
				a.Result = results[k]
			}
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	return answers
}

// decide makes one answer of those of the places that were asked.
func (i *instances) decide(ref cloud.InstanceRef, answers []answer) cloud.Result[*cloud.Instance] {
	if len(answers) == 1 {
		return answers[0].Result
	}
	var found []answer
	var unsure, absent, empty error
	for _, a := range answers {
		switch {
		case a.Err == nil && a.Value.IsMachineOf(ref): // of instances of one name, the machine itself tells which it is
			return a.Result
		case a.Err == nil:
			found = append(found, a)
		case cloud.IsNotFound(a.Err):
			absent = a.Err
		case errors.Is(a.Err, ErrEmpty):
			empty = a.Err
		default:
			unsure = a.Err
		}
	}
	var err error
	switch {
	case len(found) > 1:
		err = cloud.Errorf(cloud.KindConflict, "%ss %s and %s both have an instance for this node (%s and %s); rename one, or set the Node's provider ID",
			i.words.Place, found[0].place.name, found[1].place.name, found[0].Value.ProviderID, found[1].Value.ProviderID)
	case len(found) == 1 && unsure != nil && ref.ProviderID == "":
		err = fmt.Errorf("%s %s has an instance of this name, but whether another %[1]s has one too is not known: %[3]w", i.words.Place, found[0].place.name, unsure)
	case len(found) == 1:
		return found[0].Result
	case unsure != nil:
		err = unsure
	case absent == nil:
		err = empty
	default:
		err = i.gone(ref, answers, absent)
	}
	return cloud.Result[*cloud.Instance]{Err: err}
}

// gone is the "not found" of all places. A provider ID that tells none is of the first place as a
// rule, so that is the scope to have shown other instances. A name is of no scope in particular.
func (i *instances) gone(ref cloud.InstanceRef, answers []answer, absent error) error {
	err := &cloud.Error{Kind: cloud.KindNotFound, Err: fmt.Errorf("%d %ss were asked: %v", len(answers), i.words.Place, absent)} //nolint:errorlint // its scope is not this one's
	if ref.ProviderID != "" {
		err.Scope = cloud.ScopeOf(answers[0].Err)
	}
	return err
}
