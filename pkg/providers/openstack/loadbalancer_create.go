package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// maxPopulated bounds what is sent in one call, by members and source ranges.
const maxPopulated = 20_000

// size counts what makes a tree big.
func (t *lbTree) size() (n int) {
	for _, l := range t.Listeners {
		n += len(l.AllowedCIDRs) + len(l.Pool.Members)
	}
	return n
}

// create makes the load balancer, with all its children in the same call unless they are very
// many or the provider takes them one by one only. It returns the tree as far as it is there. After a
// crash at any point find comes upon the load balancer by its name.
//
// Octavia (Zed at least) makes the VIP's port before it looks at the children, and forgets it
// when it refuses one: each further attempt would take another address of the subnet. So
// after a refusal the load balancer is made alone, and its children are refused by themselves.
func (o *lbOperation) create(ctx context.Context, w *lbWishes, want *lbTree) (*octaviaLB, *treeEntry, error) {
	if err := o.checkCertificates(ctx, w, want.Listeners...); err != nil {
		return nil, nil, err
	}
	opts, err := o.createOpts(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	if err := o.planSecond(ctx, w, &opts); err != nil {
		return nil, nil, err
	}
	if w.second { // with the members of both families
		if want, _, err = w.want(w.cfg.Provider); err != nil {
			return nil, nil, err
		}
	}
	if err := o.lb.creations.pass(w.names.lb, o.lb.now()); err != nil {
		return nil, nil, err
	}
	populated := !w.cfg.SerialAPICalls && want.size() <= maxPopulated
	if populated {
		if opts.Listeners, err = o.populate(ctx, w, opts.VipSubnetID, want); err != nil {
			return nil, nil, err
		}
	}
	made, err := o.createCall(ctx, opts)
	if populated && isRefusal(err) {
		klog.FromContext(ctx).V(2).Info("Octavia refused a load balancer with its children, making it without them", "name", w.names.lb, "reason", err.Error())
		populated, opts.Listeners = false, nil
		made, err = o.createCall(ctx, opts)
	}
	if err != nil {
		return nil, nil, err
	}
	lb := &made.octaviaLB
	klog.FromContext(ctx).V(2).Info("Created load balancer", "loadBalancer", lb.ID, "name", w.names.lb, "populated", populated)
	e := &treeEntry{readAt: o.lb.now(), tree: &lbTree{}, underway: true, unproven: true, fresh: true}
	if populated {
		e.tree = made.tree(want)
	}
	o.work = lbWork{id: lb.ID, names: w.names, owner: true}
	e.floating, err = o.exposeEarly(ctx, w, lb)
	o.lb.trees.put(lb, *e, o.lb.now()) // an operation that comes after a long creation goes on from here
	if err != nil {
		return nil, nil, err
	}
	if lb, err = o.waitMade(ctx, lb.ID, e); err != nil {
		return nil, nil, &cloud.Error{Kind: cloud.KindOf(err), Op: "create load balancer " + w.names.lb, RetryAfter: cloud.RetryAfter(err), Progress: true, Err: err}
	}
	return lb, e, nil
}

// createdLB is the answer to the call that creates a load balancer.
type createdLB struct {
	octaviaLB
	Listeners []octaviaListener `json:"listeners"`
	Pools     []struct {
		octaviaPool
		Monitor *octaviaID `json:"healthmonitor"`
	} `json:"pools"`
}

// createCall makes the call that creates a load balancer.
func (o *lbOperation) createCall(ctx context.Context, opts loadbalancers.CreateOpts) (*createdLB, error) {
	var answer struct {
		LoadBalancer createdLB `json:"loadbalancer"`
	}
	var r loadbalancers.CreateResult
	if err := o.lb.creates.do(ctx, func() error {
		r = loadbalancers.Create(ctx, o.octavia, opts)
		return nil
	}); err != nil {
		return nil, err
	}
	if r.Err != nil {
		if isAnswerLost(r.Err) {
			o.lb.creations.lost(opts.Name, o.lb.now())
		}
		return nil, api.WrapError("create load balancer "+opts.Name, r.Err)
	}
	if err := r.ExtractInto(&answer); err != nil {
		return nil, fmt.Errorf("create load balancer %s: the answer is malformed: %w", opts.Name, err)
	}
	if answer.LoadBalancer.ID == "" {
		return nil, fmt.Errorf("create load balancer %s: the answer has no ID", opts.Name)
	}
	return &answer.LoadBalancer, nil
}

// tree is what a fully populated create has made of want, as far as its answer tells. Not
// every provider makes the monitors.
func (c *createdLB) tree(want *lbTree) *lbTree {
	tree := want.clone()
	ids := map[listenerKey]string{}
	for _, l := range c.Listeners {
		ids[(&lbListener{Protocol: l.Protocol, Port: l.Port}).key()] = l.ID
	}
	for _, l := range tree.Listeners {
		l.ID = ids[l.key()]
		for _, p := range c.Pools {
			if p.Name != l.Pool.Name {
				continue
			}
			l.Pool.ID, l.Pool.Status = p.ID, p.Status
			switch {
			case p.Monitor == nil || p.Monitor.ID == "":
				l.Pool.Monitor = nil
			case l.Pool.Monitor != nil:
				l.Pool.Monitor.ID = p.Monitor.ID
			}
		}
	}
	return tree
}

// lostCreation is how long a creation whose answer was lost may still be under way: Octavia
// shows the load balancer only at the end of the request, which under load took it 30 s.
const lostCreation = time.Minute

// lostCreations are the creations whose answer was lost, by name: until it is sure that the
// load balancer would be found by its name, no second one is made.
type lostCreations struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (l *lostCreations) lost(name string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until = map[string]time.Time{}
	}
	maps.DeleteFunc(l.until, func(_ string, t time.Time) bool { return !now.Before(t) })
	l.until[name] = now.Add(lostCreation)
}

// pass returns KindRetryAfter while the creation of name may still be under way.
func (l *lostCreations) pass(name string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.until, func(_ string, t time.Time) bool { return !now.Before(t) })
	t, ok := l.until[name]
	if !ok {
		return nil
	}
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: min(t.Sub(now), 5*time.Second),
		Err: fmt.Errorf("the answer to the creation of load balancer %s was lost: it is looked for until %s before another one is made", name, t.Format(time.TimeOnly))}
}

// isAnswerLost reports whether a request may have been carried out, or still be, although it
// failed: it was sent, and Octavia itself has not answered.
func isAnswerLost(err error) bool {
	var code gophercloud.ErrUnexpectedResponseCode
	var known *cloud.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &code):
		return code.Actual == http.StatusBadGateway || code.Actual == http.StatusGatewayTimeout
	case errors.As(err, &known), auth.AsError(err) != nil, errors.As(err, &dial) && dial.Op == "dial":
		return false
	}
	return true
}

// isRefusal reports whether Octavia has certainly made nothing, because of what the request
// says or because a quota is met.
func isRefusal(err error) bool {
	switch cloud.KindOf(err) {
	case cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict, cloud.KindDenied, cloud.KindStale, cloud.KindQuota:
		return true
	}
	return false
}

func (o *lbOperation) createOpts(ctx context.Context, w *lbWishes) (loadbalancers.CreateOpts, error) {
	opts := loadbalancers.CreateOpts{
		Name: w.names.lb, Description: w.names.lbDescription, Tags: []string{w.names.lb, w.names.owner}, Provider: w.cfg.Provider,
	}
	if w.cfg.Provider != config.ProviderOVN {
		opts.FlavorID, opts.AvailabilityZone = w.vip.flavorID, w.vip.zone
	}
	if w.vip.address.IsValid() {
		opts.VipAddress = w.vip.address.String()
	}
	switch {
	case w.vip.portID != "":
		opts.VipPortID = w.vip.portID
	case w.vip.subnetID != "" || w.vip.networkID != "":
		opts.VipSubnetID, opts.VipNetworkID = w.vip.subnetID, w.vip.networkID
	default:
		subnet, err := o.subnetOfMembers(ctx, w)
		if err != nil {
			return opts, err
		}
		opts.VipSubnetID = subnet
	}
	return opts, o.vipFamily(ctx, w, &opts)
}

// subnetOfMembers is where the VIP goes when nothing says otherwise: the first member's subnet or,
// where there is no member, the first Node's.
func (o *lbOperation) subnetOfMembers(ctx context.Context, w *lbWishes) (string, error) {
	const nextStep = "set [LoadBalancer] subnet-id in cloud.conf or the annotation " + annSubnetID
	for _, m := range w.near() {
		addr, ok := memberAddress(m, w.isIPv6())
		if !ok {
			continue
		}
		id, err := o.subnetOfPort(ctx, w, addr)
		if err == nil && id == "" {
			err = cloud.Errorf(cloud.KindInvalid, "no subnet for the VIP: no server's port has the address %s of node %s; %s", addr, m.Node.NodeName, nextStep)
		}
		return id, err
	}
	return "", cloud.Errorf(cloud.KindInvalid, "no subnet for the VIP: there is no node to take it from; %s", nextStep)
}

// populate is want as the listeners of a fully populated create. Provider ovn forgets
// monitors that are made this way, and can never delete them again, so it gets them later.
func (o *lbOperation) populate(ctx context.Context, w *lbWishes, vipSubnetID string, want *lbTree) ([]listeners.CreateOpts, error) {
	var out []listeners.CreateOpts
	for _, l := range want.Listeners {
		if err := o.setMemberSubnets(ctx, w, vipSubnetID, l.Pool.Members); err != nil {
			return nil, err
		}
		opts := listenerCreateOpts(l, "")
		pool := poolCreateOpts(l.Pool)
		pool.Members = createMembers(l.Pool.Members)
		if l.Pool.Monitor != nil && w.cfg.Provider != config.ProviderOVN {
			pool.Monitor = monitorCreateOpts(l.Pool.Monitor)
		}
		opts.DefaultPool = &pool
		out = append(out, opts)
	}
	return out, nil
}
