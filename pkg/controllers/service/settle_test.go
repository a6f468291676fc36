package service

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A cluster in which Nodes come and go all the time is none in which members wait for ever.
func TestNodesAreWaitedForUntilTheyAreQuietButNotForEver(t *testing.T) {
	const quiet, most = time.Second, 10 * time.Second
	for name, tt := range map[string]struct {
		every time.Duration // a Node changes so often; 0 for never
		want  time.Duration
	}{
		"quiet": {0, quiet},
		"churn": {quiet / 2, most},
	} {
		clock := clocktesting.NewFakeClock(time.Unix(0, 0))
		c := &Controller{nodes: newNodes(nil)}
		c.Clock, c.NodeQuiet, c.NodeWait = clock, quiet, most
		settled := make(chan bool, 1)
		go func() { settled <- c.settle(t.Context()) }()
		waitTimers(clock)
		const step = quiet / 2
		var took time.Duration
		for done := false; !done && took < 2*most; {
			clock.Step(step)
			took += step
			if tt.every > 0 && took < most {
				c.nodes.signal <- struct{}{}
				for len(c.nodes.signal) > 0 { // until it is taken
					time.Sleep(time.Millisecond)
				}
				waitTimers(clock)
				continue
			}
			select {
			case ok := <-settled:
				done = true
				if !ok {
					t.Errorf("%s: it gave up", name)
				}
			case <-time.After(50 * time.Millisecond):
			}
		}
		if took != tt.want {
			t.Errorf("%s: settled after %s, want %s", name, took, tt.want)
		}
	}
}

// waitTimers waits until both timers of settle run.
func waitTimers(clock *clocktesting.FakeClock) {
	for clock.Waiters() < 2 {
		time.Sleep(time.Millisecond)
	}
}

func TestSettleEndsWithItsContext(t *testing.T) {
	c := &Controller{nodes: newNodes(nil)}
	c.Clock, c.NodeQuiet, c.NodeWait = clocktesting.NewFakeClock(time.Unix(0, 0)), time.Second, time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c.settle(ctx) {
		t.Error("it goes on after its end")
	}
}
