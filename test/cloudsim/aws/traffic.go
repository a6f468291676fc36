package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
)

// traffic is the data plane of all load balancers.
type traffic struct {
	claim   io.Closer // of the addresses
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards all below
	open   map[forward.Key]*forward.Forward
	failed map[forward.Key]error
}

// carry gives the simulator addresses of this machine, and a data plane.
func (o *Options) carry() (*traffic, error) {
	t := &traffic{open: map[forward.Key]*forward.Forward{}}
	var err error
	if t.claim, o.EC2.Addresses, err = forward.ClaimNet(0); err != nil {
		return nil, err
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t, nil
}

func (t *traffic) spawn(run func(context.Context)) { t.running.Go(func() { run(t.ctx) }) }

// Spare is a range of the simulator's addresses that it hands out none of, for a VPC of a test's; none without Options.Traffic.
func (s *Sim) Spare() netip.Prefix {
	all := s.opts.EC2.Addresses
	if !all.IsValid() {
		return all
	}
	octets := all.Addr().As4()
	octets[2] = 192
	return netip.PrefixFrom(netip.AddrFrom4(octets), 18)
}

// Close ends the simulator. It may be called more than once.
func (s *Sim) Close() {
	s.Front.Close()
	if t := s.traffic; t != nil {
		t.stop()
		t.running.Wait()
		_ = t.claim.Close()
	}
}

// follow has the data plane listen where load balancers do now.
func (s *Sim) follow() {
	t := s.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	want := s.forwards(netip.Addr{})
	for key, f := range t.open {
		if _, is := want[key]; !is {
			f.Stop()
			delete(t.open, key)
		}
	}
	t.failed = map[forward.Key]error{}
	for key := range want {
		if t.open[key] != nil {
			continue
		}
		f, err := forward.Listen(t.ctx, t.spawn, key, func(client netip.Addr) *forward.Target { return s.forwards(client)[key] })
		if err != nil {
			t.failed[key] = err
			continue
		}
		t.open[key] = f
	}
}

// forwards is where load balancers listen, with where a client's traffic goes.
func (s *Sim) forwards(client netip.Addr) map[forward.Key]*forward.Target {
	out := map[forward.Key]*forward.Target{}
	for _, at := range s.places() {
		maps.Copy(out, at.elb.Forwards(client))
		maps.Copy(out, at.elbv2.Forwards(client))
	}
	return out
}

func (s *Sim) places() []*state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.states))
}

// Resolve is where a load balancer's name leads, with Options.Traffic. It fails where the load balancer cannot listen, as on ports that
// only root may have.
func (s *Sim) Resolve(name string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, at := range s.places() {
		out = slices.Concat(out, at.elb.Resolve(name), at.elbv2.Resolve(name))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no such host: %s", name)
	}
	s.traffic.mu.Lock()
	defer s.traffic.mu.Unlock()
	var errs []error
	for key, err := range s.traffic.failed {
		if slices.Contains(out, key.At.Addr()) {
			errs = append(errs, err)
		}
	}
	return out, errors.Join(errs...)
}

// changed reports whether a call may have changed where load balancers listen.
func (c *call) changed() bool {
	return c.endpoint.service == elbService && !strings.HasPrefix(c.action, "Describe")
}
