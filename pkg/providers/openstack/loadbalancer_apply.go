package openstack

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// apply makes the changes of e.todo, one API call each, and waits after each until Octavia
// takes the next. It returns the load balancer as it is after the last. When one takes too
// long, or all of them do, it returns KindRetryAfter; what is left then is remembered and gone
// on with.
func (o *lbOperation) apply(ctx context.Context, ref cloud.LoadBalancerRef, lb *octaviaLB, e *treeEntry) (*octaviaLB, error) {
	began := o.lb.now()
	for made := false; len(e.todo) > 0; made = true {
		if turn := o.lb.waits.turn; made && turn > 0 && o.lb.now().Sub(began) >= turn {
			o.lb.trees.put(lb, *e, o.lb.now())
			return nil, withProgress(&cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: time.Second,
				Err: fmt.Errorf("%d changes of load balancer %s are left, with which it goes on after others' turn", len(e.todo), lb.ID)}, made)
		}
		c := e.todo[0]
		klog.FromContext(ctx).V(2).Info("Changing load balancer", "loadBalancer", lb.ID, "service", klog.KRef(ref.Namespace, ref.Name), "change", c.String())
		o.changes(lb.ID)
		if err := o.send(ctx, lb.ID, c.String()+" of load balancer "+lb.ID, func() error { return o.call(ctx, lb.ID, c) }); err != nil {
			return nil, withProgress(err, made)
		}
		e.todo = e.todo[1:]
		after, err := o.waitActive(ctx, lb.ID)
		if cloud.KindOf(err) == cloud.KindRetryAfter {
			e.underway = true
			o.lb.trees.put(lb, *e, o.lb.now())
		}
		if err != nil {
			return nil, withProgress(err, true)
		}
		lb, e.underway = after, false
	}
	return lb, nil
}

// withProgress notes in a KindRetryAfter that something was changed.
func withProgress(err error, made bool) error {
	if !made || cloud.KindOf(err) != cloud.KindRetryAfter {
		return err
	}
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: cloud.RetryAfter(err), Progress: true, Err: err}
}

// call makes the API call of one change.
func (o *lbOperation) call(ctx context.Context, lbID string, c lbChange) error {
	switch c.action {
	case createListener:
		id, err := api.MadeID(listeners.Create(ctx, o.octavia, listenerCreateOpts(c.listener, lbID)), "listener")
		c.listener.ID = id
		return err
	case updateListener:
		return listeners.Update(ctx, o.octavia, c.listener.ID, listenerUpdateOpts(c.listener)).Err
	case deleteListener:
		return gone(listeners.Delete(ctx, o.octavia, c.listener.ID).Err)
	case createPool:
		opts := poolCreateOpts(c.pool)
		if c.listener != nil {
			opts.ListenerID = c.listener.ID
		} else {
			opts.LoadbalancerID = lbID
		}
		id, err := api.MadeID(pools.Create(ctx, o.octavia, opts), "pool")
		c.pool.ID = id
		return err
	case updatePool:
		return pools.Update(ctx, o.octavia, c.pool.ID, pools.UpdateOpts{LBMethod: pools.LBMethod(c.pool.Method), Persistence: persistence(c.pool)}).Err
	case touchPool:
		return pools.Update(ctx, o.octavia, c.pool.ID, pools.UpdateOpts{Name: &c.pool.Name}).Err
	case deletePool:
		return gone(pools.Delete(ctx, o.octavia, c.pool.ID).Err)
	case setMembers:
		return pools.BatchUpdateMembers(ctx, o.octavia, c.pool.ID, batchMembers(c.pool.Members)).Err
	case createMonitor:
		opts := monitorCreateOpts(c.pool.Monitor)
		opts.PoolID = c.pool.ID
		id, err := api.MadeID(monitors.Create(ctx, o.octavia, opts), "healthmonitor")
		c.pool.Monitor.ID = id
		return err
	case updateMonitor:
		m := c.pool.Monitor
		return monitors.Update(ctx, o.octavia, m.ID, monitors.UpdateOpts{Delay: m.Delay, Timeout: m.Timeout,
			MaxRetries: m.MaxRetries, MaxRetriesDown: m.MaxRetriesDown, URLPath: m.Path, HTTPMethod: m.Method, ExpectedCodes: m.Codes}).Err
	case deleteMonitor:
		return gone(monitors.Delete(ctx, o.octavia, c.pool.Monitor.ID).Err)
	}
	return nil
}

// gone takes the cloud's word that what was to be deleted does not exist for success.
func gone(err error) error {
	if err != nil && cloud.IsNotFound(api.WrapError("delete", err)) {
		return nil
	}
	return err
}

func listenerCreateOpts(l *lbListener, lbID string) listeners.CreateOpts {
	opts := listeners.CreateOpts{
		LoadbalancerID: lbID, Name: l.Name, Protocol: listeners.Protocol(l.Protocol), ProtocolPort: l.Port,
		ConnLimit: &l.Connections, DefaultTlsContainerRef: l.TLSRef, AllowedCIDRs: l.ranges(), Tags: l.Tags,
	}
	if l.ForwardedFor {
		opts.InsertHeaders = map[string]string{forwardedForHeader: "true"}
	}
	if t := l.Timeouts; t != nil {
		opts.TimeoutClientData, opts.TimeoutMemberConnect, opts.TimeoutMemberData, opts.TimeoutTCPInspect = &t.Client, &t.Connect, &t.Member, &t.Inspect
	}
	if l.Pool != nil {
		opts.DefaultPoolID = l.Pool.ID
	}
	return opts
}

// ranges are the clients that are let in, as they are written.
func (l *lbListener) ranges() []string {
	if l.AllowedCIDRs == nil {
		return l.Everyone
	}
	return l.AllowedCIDRs
}

func listenerUpdateOpts(l *lbListener) listeners.UpdateOpts {
	cidrs := l.ranges()
	if cidrs == nil {
		cidrs = []string{}
	}
	headers := maps.Clone(l.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	delete(headers, forwardedForHeader)
	if l.ForwardedFor {
		headers[forwardedForHeader] = "true"
	}
	opts := listeners.UpdateOpts{ConnLimit: &l.Connections, AllowedCIDRs: &cidrs, Tags: &l.Tags}
	if len(headers) > 0 || len(l.Headers) > 0 {
		opts.InsertHeaders = &headers
	}
	if l.TLSRef != "" {
		opts.DefaultTlsContainerRef = &l.TLSRef
	}
	if t := l.Timeouts; t != nil {
		opts.TimeoutClientData, opts.TimeoutMemberConnect, opts.TimeoutMemberData, opts.TimeoutTCPInspect = &t.Client, &t.Connect, &t.Member, &t.Inspect
	}
	if l.Pool != nil && l.Pool.ID != "" {
		opts.DefaultPoolID = &l.Pool.ID
	}
	return opts
}

func poolCreateOpts(p *lbPool) pools.CreateOpts {
	opts := pools.CreateOpts{Name: p.Name, Protocol: pools.Protocol(p.Protocol), LBMethod: pools.LBMethod(p.Method)}
	if p.ByClientIP {
		opts.Persistence = persistence(p)
	}
	return opts
}

// persistence is the session persistence of a pool; the empty one takes it away.
func persistence(p *lbPool) *pools.SessionPersistence {
	if !p.ByClientIP {
		return &pools.SessionPersistence{}
	}
	return &pools.SessionPersistence{Type: persistenceSourceIP}
}

func monitorCreateOpts(m *lbMonitor) monitors.CreateOpts {
	opts := monitors.CreateOpts{Name: m.Name, Type: m.Type, Delay: m.Delay, Timeout: m.Timeout,
		MaxRetries: m.MaxRetries, MaxRetriesDown: m.MaxRetriesDown}
	if m.Type == monitorHTTP {
		opts.URLPath, opts.HTTPMethod, opts.ExpectedCodes = m.Path, m.Method, m.Codes
	}
	return opts
}

// batchMembers is the whole list of a pool's members. Octavia resets what the list does not
// say, so everything that is kept is said.
func batchMembers(members []lbMember) []batchMember {
	out := make([]batchMember, 0, len(members))
	for i := range members {
		m := &members[i]
		up := !m.Disabled
		opts := pools.BatchUpdateMemberOpts{Name: &m.Name, Address: m.Address, ProtocolPort: m.Port, Weight: m.Weight, AdminStateUp: &up, Tags: m.Tags}
		if m.Backup {
			opts.Backup = &m.Backup
		}
		if m.SubnetID != "" {
			opts.SubnetID = &m.SubnetID
		}
		if m.MonitorPort != 0 {
			opts.MonitorPort = &m.MonitorPort
		}
		out = append(out, batchMember{BatchUpdateMemberOpts: opts, clearMonitorPort: m.ClearMonitorPort})
	}
	return out
}

// batchMember can take a monitor port away, which gophercloud's options cannot.
type batchMember struct {
	pools.BatchUpdateMemberOpts
	clearMonitorPort bool
}

// ToBatchMemberUpdateMap implements pools.BatchUpdateMemberOptsBuilder.
func (m batchMember) ToBatchMemberUpdateMap() (map[string]any, error) {
	body, err := m.BatchUpdateMemberOpts.ToBatchMemberUpdateMap()
	if err == nil && m.clearMonitorPort {
		body["monitor_port"] = nil
	}
	return body, err
}

// createMembers are the members of a fully populated create.
func createMembers(members []lbMember) []pools.CreateMemberOpts {
	var out []pools.CreateMemberOpts
	for i := range members {
		m := &members[i]
		opts := pools.CreateMemberOpts{Name: m.Name, Address: m.Address, ProtocolPort: m.Port, SubnetID: m.SubnetID}
		if m.MonitorPort != 0 {
			opts.MonitorPort = &m.MonitorPort
		}
		out = append(out, opts)
	}
	return out
}
