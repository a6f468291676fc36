package play

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// mutates reports whether a request would change the cloud.
func mutates(r *ossim.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Service != "identity"
}

// Calls is how many calls of the simulator's log have changed the cloud, and how many calls are not
// answered. Attempts that fail for ever ask and are refused for ever: those do not count.
func Calls(log []ossim.Request) (all, open int) {
	for i := range log {
		switch r := &log[i]; {
		case r.Status == 0:
			open++
		case mutates(r) && r.Status < http.StatusBadRequest:
			all++
		}
	}
	return all, open
}

// Changes collects the calls that change a simulated cloud. Its methods may be called concurrently.
type Changes struct {
	mu   sync.Mutex
	list []ossim.Mutation
}

// Watch collects from now on; refused says whether calls that are refused are collected, too.
func (c *Changes) Watch(sim *ossim.Sim, refused bool) {
	sim.OnMutation(func(m ossim.Mutation) {
		if !m.After || !refused && m.Status >= http.StatusBadRequest || m.Service == "identity" {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.list = append(c.list, m)
	})
}

// Forget leaves what was collected.
func (c *Changes) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = nil
}

// By returns the calls by scenario, with symbols. Those that only put the owner's mark on a load
// balancer are left out, once for each.
func (c *Changes) By(symbols *symbol.Symbols, scenarios []string) map[string][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, marked := map[string][]string{}, map[string]bool{}
	for _, m := range c.list {
		if strings.HasPrefix(m.Path, "/lbaas/loadbalancers/") && onlyMark(m.Body) && !marked[m.Path] {
			marked[m.Path] = true
			continue
		}
		text := symbols.Fold(strings.TrimSpace(m.Method + " " + m.Path + " " + string(m.Body)))
		if name := snapshot.OwnerOf(snapshot.Object{"name": text}, scenarios); name != "" {
			out[name] = append(out[name], text)
		}
	}
	return out
}

// onlyMark reports whether a body changes nothing but tags, and the owner's mark is among them.
func onlyMark(body []byte) bool {
	var doc map[string]map[string][]string
	if json.Unmarshal(body, &doc) != nil || len(doc["loadbalancer"]) != 1 {
		return false
	}
	return slices.ContainsFunc(doc["loadbalancer"]["tags"], func(tag string) bool { return strings.HasPrefix(tag, "isthmus-cluster=") })
}
