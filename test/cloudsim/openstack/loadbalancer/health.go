package loadbalancer

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// healthCheck asks the members of one pool again and again whether they live.
type healthCheck struct {
	pool    *pool
	monitor *monitor
	cancel  context.CancelFunc
	// streak counts answers in a row by member: above zero good ones, below zero bad ones. Only the
	// checking goroutine uses it.
	streak map[*member]int
}

// checkHealth starts and ends health checks so that each pool with a monitor in use has one; lock held.
func (s *Octavia) checkHealth(lb *loadBalancer) {
	for p, h := range lb.checks {
		if p.monitor != h.monitor || s.pools[p.id] != p || !h.monitor.adminUp || !lb.adminUp {
			h.cancel()
			delete(lb.checks, p)
		}
	}
	for _, p := range lb.pools {
		if h := p.monitor; h != nil && lb.checks[p] == nil && h.adminUp && lb.adminUp && !inCreation(h) {
			ctx, cancel := context.WithCancel(s.Context)
			check := &healthCheck{pool: p, monitor: h, cancel: cancel, streak: map[*member]int{}}
			lb.checks[p] = check
			s.Spawn(func(context.Context) { s.runCheck(ctx, check) })
		}
	}
}

// question is what one member is asked, and its answer.
type question struct {
	forward.Probe
	member *member
	up     bool
}

func (s *Octavia) runCheck(ctx context.Context, h *healthCheck) {
	defer h.cancel()
	for {
		s.Lock()
		probes := h.probes()
		delay := time.Duration(max(1, h.monitor.delay)) * time.Second
		s.Unlock()
		var wg sync.WaitGroup
		for _, p := range probes {
			// What is not the simulator's to reach is never asked and counts as alive.
			wg.Go(func() { p.up = !s.HasAddress(p.At.Addr()) || p.Ask(ctx) })
		}
		wg.Wait()
		if ctx.Err() != nil {
			return
		}
		s.Lock()
		if h.pool.monitor == h.monitor && h.judge(probes) {
			s.forwardLB(h.pool.lb) //nolint:contextcheck // what it starts lives as long as the simulator
		}
		s.Unlock()
		if !s.Wait(ctx, delay) {
			return
		}
	}
}

// probes lists what to ask; lock held.
func (h *healthCheck) probes() []*question {
	var out []*question
	m := h.monitor
	for _, x := range h.pool.members {
		if !x.adminUp || inCreation(x) {
			continue
		}
		addr, port := x.address, x.port
		if x.monitorAddress != nil {
			if a, err := netip.ParseAddr(*x.monitorAddress); err == nil {
				addr = a
			}
		}
		if x.monitorPort != nil {
			port = *x.monitorPort
		}
		out = append(out, &question{member: x, Probe: forward.Probe{
			At: netip.AddrPortFrom(addr, uint16(port)), Type: m.typ, Timeout: time.Duration(max(1, m.timeout)) * time.Second,
			Method: dialect.Scalar(m.method), Path: dialect.Scalar(m.path), Codes: dialect.Scalar(m.codes),
		}})
	}
	return out
}

// judge turns answers into operating statuses; true when a member's changed. The first answer counts at once,
// later ones when max_retries or max_retries_down of them agree. lock held.
func (h *healthCheck) judge(probes []*question) bool {
	changed := false
	for _, p := range probes {
		m, n := p.member, h.streak[p.member]
		switch {
		case p.up:
			n = max(n, 0) + 1
		default:
			n = min(n, 0) - 1
		}
		first := m.oper != online && m.oper != inError
		h.streak[m] = n
		status := m.oper
		switch {
		case p.up && (first || n >= h.monitor.retries):
			status = online
		case !p.up && (first || -n >= h.monitor.retriesDown):
			status = inError
		}
		changed = changed || status != m.oper
		m.oper = status
	}
	h.pool.summarize()
	return changed
}

// summarize sets the operating status of a pool, its listeners and its load balancer by the members'.
func (x *pool) summarize() {
	up, down := 0, 0
	for _, m := range x.members {
		switch m.oper {
		case inError:
			down++
		default:
			up++
		}
	}
	switch {
	case down == 0:
		x.oper = online
	case up == 0:
		x.oper = inError
	default:
		x.oper = degraded
	}
	for _, l := range x.users() {
		l.oper = worst(online, x.oper)
	}
	lb := x.lb
	if lb.prov != inError {
		lb.oper = online
		for _, p := range lb.pools {
			lb.oper = worst(lb.oper, p.oper)
		}
	}
}

const degraded = "DEGRADED"

// worst is the worse of two operating statuses.
func worst(a, b string) string {
	for _, s := range []string{inError, degraded} {
		if a == s || b == s {
			return s
		}
	}
	return a
}
