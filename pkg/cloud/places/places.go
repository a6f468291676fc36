package places

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// ErrEmpty is in the error of a place that has no instances at all, which is no proof that one
// does not exist. Where other places have some, it is.
var ErrEmpty = errors.New("there are no instances at all")

// Place is one of the places.
type Place struct {
	// Name tells it from the others, in messages too.
	Name string
	*cloud.Provider
}

// Words are what a cloud says of its places, and how.
type Words struct {
	// Place is what one of them is: "region".
	Place string
	// Add and AddRoutes say how the configuration gets a place of that name, and its routes.
	Add, AddRoutes func(name string) string
	// Moves says that instances move from one to another and keep their IDs: that the place where one was seen does not have it any
	// more is then not enough.
	Moves bool
}

// Join makes p the provider of all places, of which the first is the one that refs mean where
// they tell nothing. p keeps what else it has. of names a ref's place, "" where it does not
// tell: not found is then what all say.
func Join(p *cloud.Provider, all []Place, w Words, of func(cloud.InstanceRef) string) {
	j := &joined{all: all, words: w, of: of}
	p.Instances = newInstances(j)
	p.Volumes, p.Routes, p.LoadBalancers = nil, nil, nil
	if has(all, func(p Place) bool { return p.Volumes != nil }) {
		p.Volumes = newVolumes(j)
	}
	if has(all, func(p Place) bool { return p.Routes != nil }) {
		p.Routes = newRoutes(j)
	}
	if next := all[0].LoadBalancers; next != nil {
		p.LoadBalancers = &loadBalancers{LoadBalancers: next, joined: j}
	}
	p.Ready, p.Run, p.Diagnose = j.ready, nil, nil
	if has(all, func(p Place) bool { return p.Diagnose != nil }) {
		p.Diagnose = j.diagnose
	}
	if has(all, func(p Place) bool { return p.Run != nil }) {
		p.Run = j.run
	}
}

func has(all []Place, ability func(Place) bool) bool { return slices.ContainsFunc(all, ability) }

// joined is what the abilities share.
type joined struct {
	all   []Place
	words Words
	of    func(cloud.InstanceRef) string
}

// home is the place of ref, the first one's name where it tells none.
func (j *joined) home(ref cloud.InstanceRef) string {
	if name := j.of(ref); name != "" {
		return name
	}
	return j.all[0].Name
}

// names lists the names of the places.
func (j *joined) names() string {
	var out []string
	for _, p := range j.all {
		out = append(out, p.Name)
	}
	return strings.Join(out, ", ")
}

// ready implements cloud.Provider.Ready: a further place whose outage is known is not waited for. Where none is the first, one that can
// be used is enough, and the others are told.
func (j *joined) ready(ctx context.Context) error {
	if j.words.Moves {
		return j.anyReady(ctx)
	}
	for n, p := range j.all {
		if p.Ready == nil {
			continue
		}
		if err := p.Ready(ctx); err != nil && (n == 0 || !cloud.IsUnavailable(err)) {
			return err
		}
	}
	return nil
}

func (j *joined) anyReady(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok { // the start goes on after this
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	errs := make([]error, len(j.all))
	var g errgroup.Group
	for n, p := range j.all {
		if p.Ready != nil {
			g.Go(func() error {
				errs[n] = p.Ready(ctx)
				return nil
			})
		}
	}
	_ = g.Wait() // every error is in its place
	if !slices.Contains(errs, nil) {
		return errors.Join(errs...)
	}
	for n, err := range errs {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Cannot be used: what is in it is neither initialized nor deleted", j.words.Place, j.all[n].Name)
		}
	}
	return nil
}

// run implements cloud.Provider.Run.
func (j *joined) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range j.all {
		if p.Run != nil {
			g.Go(func() error { return p.Run(ctx) })
		}
	}
	return g.Wait()
}

// members are those of a place that has an ability, each with the gate of that ability.
type member[A any] struct {
	name string
	next A
	gate *gate
}

// membersOf are the places that have the ability.
func membersOf[A any](j *joined, ability func(Place) (A, bool)) []*member[A] {
	var out []*member[A]
	for _, p := range j.all {
		if next, ok := ability(p); ok {
			out = append(out, &member[A]{name: p.Name, next: next, gate: newGate(j.words.Place + " " + p.Name)})
		}
	}
	return out
}

// each asks all members in parallel.
func each[A, T any](ctx context.Context, all []*member[A], n int, question func(context.Context, A) []cloud.Result[T]) [][]cloud.Result[T] {
	out := make([][]cloud.Result[T], len(all))
	var g errgroup.Group
	for k, m := range all {
		g.Go(func() error {
			out[k] = ask(ctx, m.gate, n, func(ctx context.Context) []cloud.Result[T] { return question(ctx, m.next) })
			return nil
		})
	}
	_ = g.Wait() // every error is in its answer
	return out
}

// one is a batch of one.
func one[T any](value T, err error) []cloud.Result[T] {
	return []cloud.Result[T]{{Value: value, Err: err}}
}

// some writes the first of many names.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
