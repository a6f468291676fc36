package wire

import (
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// Listener is a listener as Octavia answers it.
type Listener struct {
	plan.Listener
	plan.Timeouts
	PoolID        string     `json:"default_pool_id"`
	LoadBalancers []plan.Ref `json:"loadbalancers"`
}

// Pool is a pool as Octavia answers it, Members and Listeners by their IDs.
type Pool struct {
	plan.Pool
	Persistence struct {
		Type string `json:"type"`
	} `json:"session_persistence"`
	MonitorID     string     `json:"healthmonitor_id"`
	Members       []plan.Ref `json:"members"`
	Listeners     []plan.Ref `json:"listeners"`
	LoadBalancers []plan.Ref `json:"loadbalancers"`
}

// member is a member as Octavia answers it.
type member struct {
	plan.Member
	AdminUp *bool `json:"admin_state_up"`
}

// Status is a load balancer's status tree: what it consists of, in one call, without
// most of the attributes.
type Status struct {
	Status    string `json:"provisioning_status"`
	Listeners []struct {
		ID    string       `json:"id"`
		Pools []PoolStatus `json:"pools"`
	} `json:"listeners"`
}

// PoolStatus is a pool in a status tree.
type PoolStatus struct {
	ID      string `json:"id"`
	Status  string `json:"provisioning_status"`
	Monitor struct {
		ID     string `json:"id"`
		Status string `json:"provisioning_status"`
	} `json:"health_monitor"`
	Members []member `json:"members"`
}

// Created is the answer to the call that creates a load balancer.
type Created struct {
	plan.LoadBalancer
	Listeners []Listener `json:"listeners"`
	Pools     []struct {
		Pool
		Monitor plan.Ref `json:"healthmonitor"`
	} `json:"pools"`
}

const forwardedForHeader = "X-Forwarded-For"

// Node is the listener with the pool of those by ID that it sends to.
func (l *Listener) Node(pools map[string]*plan.Pool) *plan.Listener {
	n, timeouts := l.Listener, l.Timeouts
	n.Timeouts = &timeouts
	n.ForwardedFor = strings.EqualFold(l.Headers[forwardedForHeader], "true")
	n.Pool = pools[l.PoolID]
	if n.AllowedCIDRs = plan.NormalCIDRs(l.AllowedCIDRs); n.AllowedCIDRs == nil {
		n.Everyone = l.AllowedCIDRs
	}
	return &n
}

// TreeOf is the tree of a load balancer's listeners and pools, to each of which fill adds members and
// monitor.
func TreeOf(listeners []Listener, pools []Pool, fill func(node *plan.Pool, p Pool) error) (*plan.Tree, error) {
	t, byID := &plan.Tree{}, map[string]*plan.Pool{}
	for _, p := range pools {
		n := p.Pool
		n.Used = len(p.Listeners) > 0
		n.ByClientIP = p.Persistence.Type == plan.PersistenceSourceIP
		if err := fill(&n, p); err != nil {
			return nil, err
		}
		if m := n.Monitor; m != nil && m.Type != plan.MonitorHTTP {
			m.Path, m.Method, m.Codes = "", "", ""
		}
		t.Pools = append(t.Pools, &n)
		byID[p.ID] = &n
	}
	for _, l := range listeners {
		t.Listeners = append(t.Listeners, l.Node(byID))
	}
	return t, nil
}

func nodesOf(members []member) []plan.Member {
	var out []plan.Member
	for _, m := range members {
		m.Disabled = m.AdminUp != nil && !*m.AdminUp
		out = append(out, m.Member)
	}
	plan.SortMembers(out)
	return out
}

// Nodes are the pool's members, without what a status tree does not tell.
func (p *PoolStatus) Nodes() []plan.Member { return nodesOf(p.Members) }

// Pool returns a pool that a listener uses, nil for none.
func (s *Status) Pool(id string) *PoolStatus {
	for _, l := range s.Listeners {
		for i := range l.Pools {
			if l.Pools[i].ID == id {
				return &l.Pools[i]
			}
		}
	}
	return nil
}

// Proves reports whether a tree consists of the same objects; then its nodes get their statuses.
func (s *Status) Proves(tree *plan.Tree) bool {
	known, used := map[string]bool{}, map[*plan.Pool]bool{}
	for _, l := range tree.Listeners {
		known[l.ID], used[l.Pool] = true, true
	}
	if len(s.Listeners) != len(known) {
		return false
	}
	for _, l := range s.Listeners {
		if !known[l.ID] {
			return false
		}
	}
	for _, p := range tree.Pools {
		seen := s.Pool(p.ID)
		if seen == nil && !used[p] {
			continue
		}
		if seen == nil || len(seen.Members) != len(p.Members) {
			return false
		}
		hasMonitor := seen.Monitor.ID != ""
		if hasMonitor != (p.Monitor != nil) || hasMonitor && seen.Monitor.ID != p.Monitor.ID {
			return false
		}
		p.Status = seen.Status
		if hasMonitor {
			p.Monitor.Status = seen.Monitor.Status
		}
	}
	return true
}

// Tree is what a fully populated create has made of want, as far as its answer tells. Not
// every provider makes the monitors.
func (c *Created) Tree(want *plan.Tree) *plan.Tree {
	tree := want.Clone()
	for _, l := range tree.Listeners {
		l.ID = ""
		if i := slices.IndexFunc(c.Listeners, func(x Listener) bool { return x.Key() == l.Key() }); i >= 0 {
			l.ID = c.Listeners[i].ID
		}
		for _, p := range c.Pools {
			if p.Name != l.Pool.Name {
				continue
			}
			l.Pool.ID, l.Pool.Status = p.ID, p.Status
			switch {
			case p.Monitor.ID == "":
				l.Pool.Monitor = nil
			case l.Pool.Monitor != nil:
				l.Pool.Monitor.ID = p.Monitor.ID
			}
		}
	}
	return tree
}
