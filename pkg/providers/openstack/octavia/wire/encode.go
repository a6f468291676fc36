package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// Create makes a load balancer. lost says that it may have been made, or still be, although there is an
// error.
func (c *Client) Create(ctx context.Context, opts loadbalancers.CreateOpts) (made *Created, lost bool, err error) {
	var answer struct {
		LoadBalancer *Created `json:"loadbalancer"`
	}
	var r loadbalancers.CreateResult
	if err := c.creates.Do(ctx, func() error {
		r = loadbalancers.Create(ctx, c.sc, opts)
		return nil
	}); err != nil {
		return nil, false, err
	}
	op := "create load balancer " + opts.Name
	if err := api.WrapError(op, r.Err); err != nil {
		return nil, isAnswerLost(r.Err), err
	}
	if err := r.ExtractInto(&answer); err != nil {
		return nil, false, fmt.Errorf("%s: the answer is malformed: %w", op, err)
	}
	if made = answer.LoadBalancer; made == nil || made.ID == "" {
		return nil, false, errors.New(op + ": the answer has no ID")
	}
	return made, false, nil
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

// Tag writes all tags of a load balancer.
func (c *Client) Tag(ctx context.Context, id string, tags []string) error {
	return c.change(ctx, "tag load balancer "+id, func() error {
		return loadbalancers.Update(ctx, c.sc, id, loadbalancers.UpdateOpts{Tags: &tags}).Err
	})
}

// Delete deletes a load balancer, with its children if it is to cascade. One that is gone is deleted.
func (c *Client) Delete(ctx context.Context, id string, cascade bool) error {
	return cloud.IgnoreNotFound(c.change(ctx, "delete load balancer "+id, func() error {
		return loadbalancers.Delete(ctx, c.sc, id, loadbalancers.DeleteOpts{Cascade: cascade}).Err
	}))
}

// Change makes one change of a load balancer's children, and fills in the ID of what it makes. What is to be
// deleted and gone is deleted.
func (c *Client) Change(ctx context.Context, id string, x plan.Change) error {
	err := c.change(ctx, x.String()+" of load balancer "+id, func() error { return c.call(ctx, id, x) })
	if x.Action == plan.DeleteListener || x.Action == plan.DeletePool || x.Action == plan.DeleteMonitor {
		return cloud.IgnoreNotFound(err)
	}
	return err
}

func (c *Client) change(ctx context.Context, op string, call func() error) error {
	return api.WrapError(op, c.changes.Do(ctx, call))
}

// call makes the API call of one change.
func (c *Client) call(ctx context.Context, lbID string, x plan.Change) (err error) {
	switch x.Action {
	case plan.CreateListener:
		x.Listener.ID, err = api.MadeID(listeners.Create(ctx, c.sc, listenerCreateOpts(x.Listener, lbID)), "listener")
	case plan.UpdateListener:
		err = listeners.Update(ctx, c.sc, x.Listener.ID, listenerUpdateOpts(x.Listener)).Err
	case plan.DeleteListener:
		err = listeners.Delete(ctx, c.sc, x.Listener.ID).Err
	case plan.CreatePool:
		opts := poolCreateOpts(x.Pool)
		if x.Listener != nil {
			opts.ListenerID = x.Listener.ID
		} else {
			opts.LoadbalancerID = lbID
		}
		x.Pool.ID, err = api.MadeID(pools.Create(ctx, c.sc, opts), "pool")
	case plan.UpdatePool:
		err = pools.Update(ctx, c.sc, x.Pool.ID, pools.UpdateOpts{LBMethod: pools.LBMethod(x.Pool.Method), Persistence: persistence(x.Pool)}).Err
	case plan.TouchPool:
		err = pools.Update(ctx, c.sc, x.Pool.ID, pools.UpdateOpts{Name: &x.Pool.Name}).Err
	case plan.DeletePool:
		err = pools.Delete(ctx, c.sc, x.Pool.ID).Err
	case plan.SetMembers:
		err = pools.BatchUpdateMembers(ctx, c.sc, x.Pool.ID, batchMembers(x.Pool.Members)).Err
	case plan.CreateMonitor:
		opts := monitorCreateOpts(x.Pool.Monitor)
		opts.PoolID = x.Pool.ID
		x.Pool.Monitor.ID, err = api.MadeID(monitors.Create(ctx, c.sc, opts), "healthmonitor")
	case plan.UpdateMonitor:
		m := x.Pool.Monitor
		err = monitors.Update(ctx, c.sc, m.ID, monitors.UpdateOpts{Delay: m.Delay, Timeout: m.Timeout,
			MaxRetries: m.MaxRetries, MaxRetriesDown: m.MaxRetriesDown, URLPath: m.Path, HTTPMethod: m.Method, ExpectedCodes: m.Codes}).Err
	case plan.DeleteMonitor:
		err = monitors.Delete(ctx, c.sc, x.Pool.Monitor.ID).Err
	}
	return err
}

func listenerCreateOpts(l *plan.Listener, lbID string) listeners.CreateOpts {
	opts := listeners.CreateOpts{
		LoadbalancerID: lbID, Name: l.Name, Protocol: listeners.Protocol(l.Protocol), ProtocolPort: l.Port,
		ConnLimit: &l.Connections, DefaultTlsContainerRef: l.TLSRef, AllowedCIDRs: ranges(l), Tags: l.Tags,
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
func ranges(l *plan.Listener) []string {
	if l.AllowedCIDRs == nil {
		return l.Everyone
	}
	return l.AllowedCIDRs
}

func listenerUpdateOpts(l *plan.Listener) listeners.UpdateOpts {
	cidrs, headers := append([]string{}, ranges(l)...), map[string]string{}
	maps.Copy(headers, l.Headers)
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

func poolCreateOpts(p *plan.Pool) pools.CreateOpts {
	opts := pools.CreateOpts{Name: p.Name, Protocol: pools.Protocol(p.Protocol), LBMethod: pools.LBMethod(p.Method)}
	if p.ByClientIP {
		opts.Persistence = persistence(p)
	}
	return opts
}

// persistence is the session persistence of a pool; the empty one takes it away.
func persistence(p *plan.Pool) *pools.SessionPersistence {
	if !p.ByClientIP {
		return &pools.SessionPersistence{}
	}
	return &pools.SessionPersistence{Type: plan.PersistenceSourceIP}
}

func monitorCreateOpts(m *plan.Monitor) monitors.CreateOpts {
	opts := monitors.CreateOpts{Name: m.Name, Type: m.Type, Delay: m.Delay, Timeout: m.Timeout,
		MaxRetries: m.MaxRetries, MaxRetriesDown: m.MaxRetriesDown}
	if m.Type == plan.MonitorHTTP {
		opts.URLPath, opts.HTTPMethod, opts.ExpectedCodes = m.Path, m.Method, m.Codes
	}
	return opts
}

// batchMembers is the whole list of a pool's members. Octavia resets what the list does not
// say, so everything that is kept is said.
func batchMembers(members []plan.Member) []batchMember {
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
func createMembers(members []plan.Member) []pools.CreateMemberOpts {
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

// Populated are a tree's listeners as those of a fully populated create. Without monitors they are made
// later.
func Populated(t *plan.Tree, withMonitors bool) []listeners.CreateOpts {
	var out []listeners.CreateOpts
	for _, l := range t.Listeners {
		opts, pool := listenerCreateOpts(l, ""), poolCreateOpts(l.Pool)
		pool.Members = createMembers(l.Pool.Members)
		if l.Pool.Monitor != nil && withMonitors {
			pool.Monitor = monitorCreateOpts(l.Pool.Monitor)
		}
		opts.DefaultPool = &pool
		out = append(out, opts)
	}
	return out
}
