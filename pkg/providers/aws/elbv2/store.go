package elbv2

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/elbv2/plan"
)

// listAge is for how long the lists of all load balancers and target groups are believed; what is made or deleted here is entered
// into them.
const listAge = 10 * time.Minute

// freshAge is how old they may be for a verification, of which many come at a time.
const freshAge = time.Minute

// Names of what may be a Service's: of others no tags are read.
var (
	balancerName = regexp.MustCompile(`^a[0-9a-z]{1,31}$`)
	groupName    = regexp.MustCompile(`^k8s-[0-9A-Za-z]{0,8}-[0-9A-Za-z]{0,8}-[0-9a-f]{10}$`)
)

// store has the load balancers and target groups of the region that may be Services', with their tags, and without listeners,
// attributes and targets. What it gives out is shared, and replaced when it changes.
type store struct {
	c   *api.Client
	all inventory.Value[objects]
}

// objects are what is there by ARN.
type objects struct {
	balancers map[string]*plan.Balancer
	groups    map[string]*plan.TargetGroup
}

// get returns what is there, as of a read that has not begun before since.
func (s *store) get(ctx context.Context, since time.Time) (objects, error) {
	return s.all.Since(ctx, since, s.list)
}

// change enters what was changed here.
func (s *store) change(edit func(objects)) {
	s.all.Edit(func(all objects) objects {
		all = objects{maps.Clone(all.balancers), maps.Clone(all.groups)}
		edit(all)
		return all
	})
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
