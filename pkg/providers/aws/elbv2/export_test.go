package elbv2

import "time"

// Age lets time pass for all that is remembered of load balancers, and for the lists.
func (l *LoadBalancers) Age(d time.Duration) {
	l.now = func() time.Time { return time.Now().Add(d) }
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.store.read = l.store.read.Add(-d)
}
