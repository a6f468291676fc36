package nodes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
)

// slowAnswer is a cloud that needs a while.
type slowAnswer struct{ oneAnswer }

func (s *slowAnswer) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	time.Sleep(200 * time.Millisecond)
	return s.oneAnswer.Find(ctx, refs)
}

// A round in which the API server is slow costs one batch too, and one of minutes one a
// minute. Rounds of many nodes share a batch for half a minute.
func TestRoundsShareBatches(t *testing.T) {
	const period = 5 * time.Second
	for _, test := range []struct {
		nodes   int
		patch   time.Duration // after each node
		rounds  int
		batches int // in all rounds
	}{
		{manyNodes, 0, 3, 3},
		{manyNodes, 500 * time.Millisecond, 3, 3},
		{manyNodes, 5 * time.Second, 3, 15},
		{500, 0, 16, 3}, // 80 s
		{500, 500 * time.Millisecond, 3, 14},
	} {
		t.Run(fmt.Sprintf("%d nodes, %v", test.nodes, test.patch), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := &slowAnswer{oneAnswer{instance: &cloud.Instance{ProviderID: "test:///a"}}}
				p, err := decorate.New(&cloud.Provider{Name: "test", Instances: answer, Ready: func(context.Context) error { return nil }}, caller.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				refs := make([]cloud.InstanceRef, test.nodes)
				for k := range refs {
					refs[k].NodeName = fmt.Sprint("node-", k)
				}
				rounds, notReady := NewRounds(period, nil), &instancecache.Peers{List: func() []cloud.InstanceRef { return refs }}
				if rounds.Further() != LifecycleMaxAge(period) {
					t.Error("a question before the first round")
				}
				for range test.rounds {
					for _, ref := range refs {
						for _, age := range []func() time.Duration{func() time.Duration { return rounds.First(ref) }, rounds.Further} {
							if _, err := p.Nodes.Lookup(t.Context(), ref, age(), notReady); err != nil {
								t.Fatal(err)
							}
						}
						time.Sleep(test.patch)
					}
					time.Sleep(period)
				}
				if answer.asked != test.batches {
					t.Errorf("%d batches in %d rounds, want %d", answer.asked, test.rounds, test.batches)
				}
			})
		})
	}
}
