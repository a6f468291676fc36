package wire

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inflight"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// aloneAtMost is how many load balancers are read each by itself: from one more on, one list of the
// project's is less work for Octavia.
const aloneAtMost = 2

// lookUpDeadline bounds one read of what several operations ask for.
const lookUpDeadline = time.Minute

// nameKey begins the key of a look-up by name; the others are IDs.
const nameKey = "name="

// Octavia is what all operations on a region's load balancers share.
type Octavia struct {
	c *api.Client
	// creates and changes bound what Octavia is asked to do at a time.
	creates, changes inflight.Limit
	lookUps          *batcher.Batcher[string, found]
	minor            atomic.Int64 // newest version 2.x of the API
}

// found is the answer about one key.
type found = cloud.Result[[]plan.LoadBalancer]

// New returns the Octavia of a region.
func New(c *api.Client) *Octavia {
	return &Octavia{c: c, creates: inflight.Limit{HeadStart: true}, lookUps: batcher.New[string, found](batcher.Options{Deadline: lookUpDeadline})}
}

// Client is Octavia for one operation.
type Client struct {
	*Octavia
	sc *gophercloud.ServiceClient
}

// Client returns one with the credentials of now.
func (o *Octavia) Client(ctx context.Context) (*Client, error) {
	sc, err := o.c.Service(ctx, api.LoadBalancer)
	return &Client{Octavia: o, sc: sc}, err
}

// Scope is where the answers come from.
func (c *Client) Scope() string { return api.ScopeOf(c.sc) }

// IsElsewhere reports whether a load balancer is of another project than ours: an administrator
// sees those of others as well.
func (c *Client) IsElsewhere(lb *plan.LoadBalancer) bool {
	project := api.ProjectOf(c.sc)
	return project != "" && lb.ProjectID != "" && lb.ProjectID != project
}

// Get reads a load balancer by its ID.
func (c *Client) Get(ctx context.Context, id string) (*plan.LoadBalancer, error) {
	all, err := c.lookUp(ctx, id)
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// Named returns the project's load balancers of a name, in the order of their IDs.
func (c *Client) Named(ctx context.Context, name string) ([]plan.LoadBalancer, error) {
	all, err := c.lookUp(ctx, nameKey+name)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(lb plan.LoadBalancer) bool { return lb.Name != name || c.IsElsewhere(&lb) })
	slices.SortFunc(all, func(a, b plan.LoadBalancer) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// lookUp reads the load balancers of a key, together with what other operations ask for.
func (c *Client) lookUp(ctx context.Context, key string) ([]plan.LoadBalancer, error) {
	all, err := c.lookUps.Do(ctx, []string{key}, c.lookUpAll)
	if err != nil {
		return nil, fmt.Errorf("wait for the answer about %s: %w", key, err)
	}
	return slices.Clone(all[key].Value), all[key].Err
}

// lookUpAll answers several keys. A list that lacks an ID proves nothing.
func (c *Client) lookUpAll(ctx context.Context, keys []string) map[string]found {
	out, listed := make(map[string]found, len(keys)), len(keys) > aloneAtMost
	if listed {
		all, err := c.List(ctx)
		for _, key := range keys {
			out[key] = found{Err: err}
		}
		for _, lb := range all {
			for _, key := range [...]string{lb.ID, nameKey + lb.Name} {
				if f, ok := out[key]; ok {
					out[key] = found{Value: append(f.Value, lb)}
				}
			}
		}
	}
	for _, key := range keys {
		f := out[key]
		switch name, isName := strings.CutPrefix(key, nameKey); {
		case f.Err != nil, len(f.Value) > 0, isName && listed:
		case isName:
			f.Value, f.Err = c.list(ctx, url.Values{"name": {name}}, "find load balancer "+name)
		default:
			var lb *plan.LoadBalancer
			if lb, f.Err = c.GetAlone(ctx, key); f.Err == nil {
				f.Value = []plan.LoadBalancer{*lb}
			}
		}
		out[key] = f
	}
	return out
}

// ofProject is the query for what is the project's.
func (c *Client) ofProject() url.Values {
	query := url.Values{}
	if project := api.ProjectOf(c.sc); project != "" { // an administrator sees those of others as well
		query.Set("project_id", project)
	}
	return query
}

// List lists the project's load balancers.
func (c *Client) List(ctx context.Context) ([]plan.LoadBalancer, error) {
	return c.list(ctx, c.ofProject(), "list load balancers")
}

// Tagged lists the load balancers that have a tag.
func (c *Client) Tagged(ctx context.Context, tag string) ([]plan.LoadBalancer, error) {
	return c.list(ctx, url.Values{"tags": {tag}}, "list load balancers with tag "+tag)
}

func (c *Client) list(ctx context.Context, query url.Values, op string) ([]plan.LoadBalancer, error) {
	return api.List[plan.LoadBalancer](ctx, api.With(c.sc, op), "lbaas/loadbalancers", query)
}

// GetAlone reads one load balancer by its ID, in a call of its own.
func (c *Client) GetAlone(ctx context.Context, id string) (*plan.LoadBalancer, error) {
	lb, err := api.Get[plan.LoadBalancer](ctx, api.With(c.sc, "get load balancer "+id), "loadbalancer", "lbaas", "loadbalancers", id)
	if err == nil && lb.Status == "DELETED" {
		return nil, cloud.Errorf(cloud.KindNotFound, "load balancer %s is deleted", id)
	}
	return lb, err
}

// Status reads a load balancer's status tree.
func (c *Client) Status(ctx context.Context, id string) (*Status, error) {
	type statuses struct {
		LoadBalancer *Status `json:"loadbalancer"`
	}
	op := "get status of load balancer " + id
	answer, err := api.Get[statuses](ctx, api.With(c.sc, op), "statuses", "lbaas", "loadbalancers", id, "status")
	if err != nil {
		return nil, err
	}
	if answer.LoadBalancer == nil {
		return nil, &cloud.Error{Op: op, Err: errors.New("the answer holds none")}
	}
	return answer.LoadBalancer, nil
}

// Tree reads all children of a load balancer: 2 calls, one for each pool that has
// members and one for each monitor.
func (c *Client) Tree(ctx context.Context, id string) (*plan.Tree, error) {
	listeners, err := c.Listeners(ctx, id)
	if err != nil {
		return nil, err
	}
	pools, err := api.List[Pool](ctx, api.With(c.sc, "list pools of load balancer "+id), "lbaas/pools", url.Values{"loadbalancer_id": {id}})
	if err != nil {
		return nil, err
	}
	return TreeOf(listeners, pools, func(node *plan.Pool, p Pool) (err error) {
		if node.Members, err = c.MembersOf(ctx, p); err != nil || p.MonitorID == "" {
			return err
		}
		m := "get health monitor " + p.MonitorID
		node.Monitor, err = api.Get[plan.Monitor](ctx, api.With(c.sc, m), "healthmonitor", "lbaas", "healthmonitors", p.MonitorID)
		return err
	})
}

// Listeners reads those of a load balancer.
func (c *Client) Listeners(ctx context.Context, id string) ([]Listener, error) {
	return api.List[Listener](ctx, api.With(c.sc, "list listeners of load balancer "+id), "lbaas/listeners", url.Values{"loadbalancer_id": {id}})
}

// Of lists the project's children of all load balancers of one kind.
func Of[T any](ctx context.Context, c *Client, kind string) ([]T, error) {
	return api.List[T](ctx, api.With(c.sc, "list "+kind), "lbaas/"+kind, c.ofProject())
}

// MembersOf reads a pool's members, if it has any.
func (c *Client) MembersOf(ctx context.Context, p Pool) ([]plan.Member, error) {
	if len(p.Members) == 0 {
		return nil, nil
	}
	return c.Members(ctx, p.ID)
}

// Members reads a pool's members.
func (c *Client) Members(ctx context.Context, poolID string) ([]plan.Member, error) {
	all, err := api.List[member](ctx, api.With(c.sc, "list members of pool "+poolID), "lbaas/pools/"+poolID+"/members", nil)
	return nodesOf(all), err
}

// Minor is the newest version 2.x of Octavia's API, read once per process.
func (c *Client) Minor(ctx context.Context) (int, error) {
	if m := c.minor.Load(); m > 0 {
		return int(m), nil
	}
	root := *c.sc
	root.ResourceBase = strings.TrimSuffix(c.sc.ResourceBaseURL(), "v2.0/")
	versions, err := api.Get[[]plan.Ref](ctx, api.With(&root, "read the versions of Octavia"), "versions")
	if err != nil {
		return 0, err
	}
	minor := 0
	for _, v := range *versions {
		if text, ok := strings.CutPrefix(v.ID, "v2."); ok {
			if n, err := strconv.Atoi(text); err == nil {
				minor = max(minor, n)
			}
		}
	}
	if minor > 0 {
		c.minor.Store(int64(minor))
	}
	return minor, nil
}
