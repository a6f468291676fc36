package openstack

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// oldGroups are the security groups of Services that there were when the process first had
// a reason to ask, while groups are not managed: manage-security-groups was turned off. It
// costs one call a process.
type oldGroups struct {
	mu    sync.Mutex
	read  bool
	names map[string]bool
	// none are the names of groups that cannot exist: the Service is new.
	none map[string]bool
}

// isNew says that there can be no group of the Service: it was never served before.
func (g *oldGroups) isNew(ref cloud.LoadBalancerRef) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.none == nil {
		g.none = map[string]bool{}
	}
	if !g.read {
		g.none[groupName(ref)] = true
	}
}

// has reports whether there may be a group of the Service, and whether that is known.
func (g *oldGroups) has(ref cloud.LoadBalancerRef) (has, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := groupName(ref)
	return g.names[name], g.read || g.none[name]
}

func (g *oldGroups) set(names map[string]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read, g.names, g.none = true, names, nil
}

// forget is for a Service that is deleted.
func (g *oldGroups) forget(ref cloud.LoadBalancerRef) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.none, groupName(ref))
}

func (g *oldGroups) deleted(ref cloud.LoadBalancerRef) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.names, groupName(ref))
}

// deleteOldGroup deletes the Service's security group from the time when groups were managed.
func (o *lbOperation) deleteOldGroup(ctx context.Context, ref cloud.LoadBalancerRef) error {
	if ref.UID == "" {
		return nil
	}
	old := &o.lb.oldGroups
	has, known := old.has(ref)
	if !known {
		type group struct {
			Name string `json:"name"`
		}
		all, err := api.ListAll[group](ctx, o.neutron, "security-groups", url.Values{"fields": {"id", "name"}}, "security_groups")
		if err != nil {
			return api.WrapError("list security groups", err)
		}
		names := map[string]bool{}
		for _, g := range all {
			if strings.HasPrefix(g.Name, groupPrefix) {
				names[g.Name] = true
			}
		}
		old.set(names)
		has = names[groupName(ref)]
	}
	if !has {
		return nil
	}
	if err := o.deleteGroups(ctx, ref); err != nil {
		return err
	}
	old.deleted(ref)
	return nil
}
