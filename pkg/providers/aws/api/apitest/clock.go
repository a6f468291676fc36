package apitest

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Clock is the real clock, ahead by what was let pass, of which timers do not know.
type Clock struct {
	clock.RealClock
	ahead atomic.Int64
}

// Now is the time.
func (c *Clock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) { c.ahead.Add(int64(d)) }
