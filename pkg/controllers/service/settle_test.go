package service

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// A cluster in which Nodes come and go all the time is none in which members wait for ever.
func TestNodesAreWaitedForUntilTheyAreQuietButNotForEver(t *testing.T) {
	const quiet, most = time.Second, 10 * time.Second
	for name, tt := range map[string]struct {
		changes int // of Nodes, each a while after the one before that is no quiet yet
		want    time.Duration
	}{
		"quiet":          {0, quiet},
		"quiet at last":  {3, 3*(quiet/2) + quiet},
		"churn":          {1000, most},
		"just too often": {int(most / (quiet / 2)), most},
	} {
		synctest.Test(t, func(t *testing.T) { // whose clock goes on when all wait
			c := &Controller{nodes: newNodes(nil, &testProvider.LoadBalancing)}
			c.Clock, c.NodeQuiet, c.NodeWait = clock.RealClock{}, quiet, most
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			wg.Go(func() {
				for range tt.changes {
					time.Sleep(quiet / 2)
					select {
					case c.nodes.signal <- struct{}{}:
					case <-ctx.Done():
						return
					}
				}
			})
			start := time.Now()
			if !c.settle(ctx) {
				t.Errorf("%s: it gave up", name)
			}
			if took := time.Since(start); took != tt.want {
				t.Errorf("%s: settled after %s, want %s", name, took, tt.want)
			}
		})
	}
}

func TestSettleEndsWithItsContext(t *testing.T) {
	c := &Controller{nodes: newNodes(nil, &testProvider.LoadBalancing)}
	c.Clock, c.NodeQuiet, c.NodeWait = clock.RealClock{}, time.Hour, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c.settle(ctx) {
		t.Error("it goes on after its end")
	}
}
