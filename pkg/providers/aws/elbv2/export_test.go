package elbv2

import "time"

// Age lets time pass for all that is remembered of load balancers, and for the lists.
func (l *LoadBalancers) Age(d time.Duration) {
	before := l.now
	l.now = func() time.Time { return before().Add(d) }
}
