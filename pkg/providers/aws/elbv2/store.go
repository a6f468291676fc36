package elbv2

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
)

// listAge is for how long the lists of all load balancers and target groups are believed; what is made or deleted here is entered
// into them.
const listAge = 10 * time.Minute

// freshAge is how old they may be for a verification, of which many come at a time.
const freshAge = time.Minute

// failedAge is for how long a read that has failed is the answer for all: in an outage they must not all try.
const failedAge = 2 * time.Second

// Names of what may be a Service's: of others no tags are read.
var (
	balancerName = regexp.MustCompile(`^a[0-9a-z]{1,31}$`)
	groupName    = regexp.MustCompile(`^k8s-[0-9A-Za-z]{0,8}-[0-9A-Za-z]{0,8}-[0-9a-f]{10}$`)
)

// store has the load balancers and target groups of the region that may be Services', with their tags, and without listeners,
// attributes and targets. What it gives out is shared, and replaced when it changes.
type store struct {
	c       *api.Client
	now     func() time.Time
	reading singleflight.Group

	mu   sync.Mutex
	read time.Time // when the read of the lists began, zero for never
	all  objects
	// failure is why the last read has failed, at that time.
	failure  error
	failedAt time.Time
	// reads is how many reads are under way, and own what was changed here since the oldest of them began.
	reads int
	own   []func(objects)
}

// objects are what is there by ARN.
type objects struct {
	balancers map[string]*plan.Balancer
	groups    map[string]*plan.TargetGroup
}

// get returns what is there, as of a read that has not begun before since. Those who ask meanwhile share one read, which nobody of them
// ends.
func (s *store) get(ctx context.Context, since time.Time) (objects, error) {
	for {
		if all, ok, err := s.known(since); ok || err != nil {
			return all, err
		}
		done := s.reading.DoChan("", func() (any, error) {
			if _, ok, err := s.known(since); ok || err != nil {
				return nil, err
			}
			return nil, s.readAll(context.WithoutCancel(ctx)) // each request has a deadline of its own
		})
		select {
		case out := <-done: // of a read that may have begun too early
			if out.Err != nil {
				return objects{}, out.Err
			}
		case <-ctx.Done():
			return objects{}, context.Cause(ctx)
		}
	}
}

// known is what is there if it was read since, or why it cannot be read.
func (s *store) known(since time.Time) (objects, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.read.Before(since):
		return s.copied(), true, nil
	case s.failure != nil && s.now().Sub(s.failedAt) < failedAge:
		return objects{}, false, s.failure
	}
	return objects{}, false, nil
}

// copied is what is there, in maps of its own. Locked.
func (s *store) copied() objects {
	return objects{maps.Clone(s.all.balancers), maps.Clone(s.all.groups)}
}

// change enters what was changed here.
func (s *store) change(edit func(objects)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.groups != nil {
		edit(s.all)
	}
	if s.reads > 0 {
		s.own = append(s.own, edit)
	}
}

func (s *store) readAll(ctx context.Context) error {
	s.mu.Lock()
	s.reads++
	s.mu.Unlock()
	began := s.now()
	all, err := s.list(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure, s.failedAt = err, s.now(); err == nil {
		for _, edit := range s.own {
			edit(all)
		}
		s.all, s.read = all, began
	}
	if s.reads--; s.reads == 0 {
		s.own = nil
	}
	return err
}

// list reads the pages of both lists, and the tags of what may be a Service's.
func (s *store) list(ctx context.Context) (objects, error) {
	all := objects{map[string]*plan.Balancer{}, map[string]*plan.TargetGroup{}}
	balancers, err := s.c.Balancers(ctx)
	if err != nil {
		return all, err
	}
	groups, err := s.c.TargetGroups(ctx)
	if err != nil {
		return all, err
	}
	for i := range balancers {
		if b := balancerOf(&balancers[i]); balancerName.MatchString(b.Name) && b.Type == typeNetwork {
			all.balancers[b.ARN] = b
		}
	}
	for i := range groups {
		if g := groupOf(&groups[i]); groupName.MatchString(g.Name) {
			all.groups[g.ARN] = g
		}
	}
	arns := slices.Concat(slices.Sorted(maps.Keys(all.balancers)), slices.Sorted(maps.Keys(all.groups)))
	tags, err := s.c.TagsOf(ctx, arns)
	if err != nil {
		return all, err
	}
	for arn, b := range all.balancers {
		b.Tags = tags[arn]
	}
	for arn, g := range all.groups {
		g.Tags = tags[arn]
	}
	return all, nil
}
