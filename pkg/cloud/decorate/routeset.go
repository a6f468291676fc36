package decorate

import (
	"net/netip"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// routeChange is one route to add or to remove.
type routeChange struct {
	route  cloud.Route
	remove bool
}

// list is the position of the list that the change goes to in Apply.
func (c routeChange) list() int {
	if c.remove {
		return 1
	}
	return 0
}

// path is what makes two routes the same for the cloud.
type path struct {
	destination netip.Prefix
	hop         cloud.Hop
}

// routeSet is one set of changes. It is guarded by routes.mu until it is taken off the queue.
type routeSet struct {
	cluster cloud.Cluster
	key     string
	changes []routeChange
	at      map[routeChange]int
	removes map[path]bool

	done chan struct{} // closed when errs can be read
	errs []error
}

func newRouteSet(cluster cloud.Cluster, key string) *routeSet {
	return &routeSet{cluster: cluster, key: key, at: map[routeChange]int{}, removes: map[path]bool{}, done: make(chan struct{})}
}

// add puts change into the set. It is false when the set does the opposite with the same
// route: then the order counts, and change belongs into a later set.
func (s *routeSet) add(change routeChange) bool {
	p := path{change.route.Destination, change.route.Hop()}
	if removes, ok := s.removes[p]; ok && removes != change.remove {
		return false
	}
	if _, ok := s.at[change]; !ok {
		s.removes[p] = change.remove
		s.at[change] = len(s.changes)
		s.changes = append(s.changes, change)
	}
	return true
}
