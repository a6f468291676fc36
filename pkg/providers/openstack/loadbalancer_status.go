package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// octaviaStatus is a load balancer's status tree: what it consists of, in one call, without
// most of the attributes.
type octaviaStatus struct {
	Status    string `json:"provisioning_status"`
	Listeners []struct {
		ID    string             `json:"id"`
		Pools []octaviaPoolState `json:"pools"`
	} `json:"listeners"`
}

type octaviaPoolState struct {
	ID      string `json:"id"`
	Status  string `json:"provisioning_status"`
	Monitor *struct {
		ID     string `json:"id"`
		Status string `json:"provisioning_status"`
	} `json:"health_monitor"`
	Members []octaviaMember `json:"members"`
}

// status reads a load balancer's status tree.
func (o *lbOperation) status(ctx context.Context, id string) (*octaviaStatus, error) {
	var answer struct {
		Statuses struct {
			LoadBalancer *octaviaStatus `json:"loadbalancer"`
		} `json:"statuses"`
	}
	op := "get status of load balancer " + id
	resp, err := o.octavia.Get(ctx, o.octavia.ServiceURL("lbaas", "loadbalancers", id, "status"), &answer, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
	if resp != nil {
		defer func() { _ = resp.Body.Close() }()
	}
	if err != nil {
		return nil, api.WrapError(op, err)
	}
	if answer.Statuses.LoadBalancer == nil {
		return nil, fmt.Errorf("%s: the answer holds none", op)
	}
	return answer.Statuses.LoadBalancer, nil
}

// pool returns a pool that a listener uses, nil for none.
func (s *octaviaStatus) pool(id string) *octaviaPoolState {
	for _, l := range s.Listeners {
		for i := range l.Pools {
			if l.Pools[i].ID == id {
				return &l.Pools[i]
			}
		}
	}
	return nil
}

// members are the pool's, without what a status tree does not tell.
func (p *octaviaPoolState) members() []lbMember {
	var out []lbMember
	for i := range p.Members {
		out = append(out, p.Members[i].node())
	}
	sortMembers(out)
	return out
}

// prove compares the entry's tree with a status tree. It is false when they do not consist of
// the same objects; otherwise the nodes get their statuses.
func (e *treeEntry) prove(s *octaviaStatus) bool {
	used := map[string]bool{}
	known := map[string]*lbListener{}
	for _, l := range e.tree.Listeners {
		known[l.ID] = l
		if l.Pool != nil {
			used[l.Pool.ID] = true
		}
	}
	if len(s.Listeners) != len(known) {
		return false
	}
	for _, l := range s.Listeners {
		if known[l.ID] == nil {
			return false
		}
	}
	for _, p := range e.tree.Pools {
		seen := s.pool(p.ID)
		if seen == nil {
			if used[p.ID] {
				return false
			}
			continue
		}
		if len(seen.Members) != len(p.Members) {
			return false
		}
		hasMonitor := seen.Monitor != nil && seen.Monitor.ID != ""
		if hasMonitor != (p.Monitor != nil) || hasMonitor && seen.Monitor.ID != p.Monitor.ID {
			return false
		}
		p.Status = seen.Status
		if hasMonitor {
			p.Monitor.Status = seen.Monitor.Status
		}
	}
	e.unproven = false
	return true
}

// waitMade waits briefly until a new load balancer is there, and fills in what became of its
// children. It returns the load balancer as it is then.
func (o *lbOperation) waitMade(ctx context.Context, id string, e *treeEntry) (*octaviaLB, error) {
	defer o.hurry()()
	lb, err := o.waitActive(ctx, id)
	if err != nil {
		return nil, err
	}
	status, err := o.status(ctx, id)
	if err != nil {
		return nil, err
	}
	if !e.prove(status) { // a provider that answers otherwise than Octavia
		read, err := o.read(ctx, id)
		if err != nil {
			return nil, err
		}
		e.tree, e.unproven = read.tree, false
	}
	return lb, nil
}

// fill reads the members of the pools that changes set and of which only addresses are known:
// Octavia resets what a list of members does not say. nil when there are none.
func (o *lbOperation) fill(ctx context.Context, tree *lbTree, changes []lbChange) (*lbTree, error) {
	var filled *lbTree
	for _, c := range changes {
		if c.action != setMembers || !c.pool.Thin {
			continue
		}
		if filled == nil {
			filled = tree.clone()
		}
		for _, p := range filled.Pools {
			if p.ID != c.pool.ID {
				continue
			}
			members, err := listMembers(ctx, o.octavia, p.ID)
			if err != nil {
				return nil, err
			}
			p.Members, p.Thin = members, false
		}
	}
	return filled, nil
}

// maxFirstTouches is how many pools a new load balancer's first operation brings to ACTIVE.
// One makes it serve on all ports; each is a call and a wait before its address is published.
// The others are touched when they are changed first.
const maxFirstTouches = 2

// isNewborn reports whether the creation of a load balancer of ours may have been cut off
// before it served anybody.
func (w *lbWishes) isNewborn(lb *octaviaLB) bool {
	return lb.Name == w.names.lb && slices.Contains(lb.Tags, w.names.owner) && len(publishedAddresses(w)) == 0
}

// firstTouches are the changes of a new load balancer, whose children Octavia may have left in
// PENDING_CREATE. Zed (worker v2 with the jobboard off, its default) then has not told the
// amphora of any of them. Updating one pool tells it of all; members outside of the VIP's
// subnet are not even reached before the members of one pool are set.
func firstTouches(lb *octaviaLB, next *lbTree, changes []lbChange) []lbChange {
	if slices.ContainsFunc(next.Pools, func(p *lbPool) bool { return p.ID != "" && p.Status != statePendingCreate }) {
		return changes // the amphora has been told
	}
	var first []lbChange
	for _, p := range next.Pools {
		if p.Status != statePendingCreate || p.ID == "" {
			continue
		}
		p.Status = stateActive
		first = append(first, lbChange{action: touchPool, pool: p})
		if len(first) == 1 && p.reaches(lb.VIPSubnetID) {
			first = append(first, lbChange{action: setMembers, pool: p})
		}
		if len(first) >= maxFirstTouches {
			break
		}
	}
	return append(first, changes...)
}

// reaches reports whether members are in another subnet than the VIP's.
func (p *lbPool) reaches(vipSubnetID string) bool {
	for i := range p.Members {
		if id := p.Members[i].SubnetID; id != "" && id != vipSubnetID {
			return true
		}
	}
	return false
}
