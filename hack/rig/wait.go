package rig

import (
	"context"
	"fmt"
	"time"
)

// Wait is how it is waited for what a manager does.
type Wait struct {
	// Every is how often it is looked whether something is done, which takes the machine's time, too.
	Every time.Duration
	// Process must not end meanwhile, and Progress is told what is seen; both may be nil.
	Process  *Process
	Progress *Progress
}

// Until waits until done says so; seen is what to show meanwhile.
func (w Wait) Until(ctx context.Context, done func() (ok bool, seen string)) error {
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	for {
		ok, seen := done()
		if ok {
			return nil
		}
		if w.Progress != nil {
			w.Progress.See(seen)
		}
		if w.Process != nil {
			if err := w.Process.Alive(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it was not done (%s): %w", seen, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Settle waits until the manager of c has nothing left to do, which is when for quiet it has neither written nor called
// the cloud, and returns when it did the last of it. calls is how many calls the cloud has had, and whether it is busy.
func (w Wait) Settle(ctx context.Context, c *Cluster, quiet time.Duration, calls func() (n int, busy bool)) (last time.Time, err error) {
	sum, writes := -1, -1
	err = w.Until(ctx, func() (bool, string) {
		n, busy := calls()
		now, err := c.Wrote()
		if err != nil || n != sum || now != writes || busy {
			last, sum, writes = time.Now(), n, now
		}
		return time.Since(last) >= quiet, fmt.Sprintf("%d cloud calls", n)
	})
	return last, err
}
