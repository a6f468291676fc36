package openstack

import (
	"maps"
	"sync"
	"time"
)

// treeTTL bounds how long a tree is believed: two changes within the second that Octavia's
// timestamps can tell apart would otherwise hide one of them for ever.
const treeTTL = 30 * time.Minute

// treeCache remembers what load balancers consist of. An entry holds as long as Octavia says
// that the load balancer has not been updated since, whoever did it; so the cloud stays the
// source of truth, and an unchanged load balancer costs no reading of its children.
type treeCache struct {
	mu      sync.Mutex
	entries map[string]treeEntry // by load balancer ID
}

type treeEntry struct {
	updatedAt string
	readAt    time.Time
	// tree is what the load balancer consists of once todo is done.
	tree *lbTree
	// todo are changes that Octavia had no time for yet, in order.
	todo []lbChange
	// underway says that Octavia had accepted our last change but not done it, so that it is
	// not known what updatedAt becomes.
	underway bool
	// unproven says that the tree is what a fully populated create answered.
	unproven bool
	// fresh says that we have made the load balancer and not yet returned its address.
	fresh bool
	// floating is the address that a fresh one's VIP was given while Octavia made it, "" for none.
	floating string
	// internal is the name of the Service for which the VIP was seen without a floating IP.
	internal string
}

// get returns what is known of lb, if it is known as it is now.
func (c *treeCache) get(lb *octaviaLB, now time.Time) (treeEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[lb.ID]
	same := e.underway || lb.UpdatedAt != "" && e.updatedAt == lb.UpdatedAt
	if !ok || lb.Status != stateActive || !same || now.Sub(e.readAt) > treeTTL {
		return treeEntry{}, false
	}
	return e, true
}

// has reports whether anything is remembered of a load balancer.
func (c *treeCache) has(id string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[id]
	return ok && now.Sub(e.readAt) <= treeTTL
}

// put remembers e, whose tree must not be changed any more, as the state of lb. What is too
// old to be believed goes, so that load balancers deleted by others leave nothing.
func (c *treeCache) put(lb *octaviaLB, e treeEntry, now time.Time) {
	e.updatedAt = lb.UpdatedAt
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]treeEntry{}
	}
	maps.DeleteFunc(c.entries, func(_ string, old treeEntry) bool { return now.Sub(old.readAt) > treeTTL })
	c.entries[lb.ID] = e
}

func (c *treeCache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, id)
}
