package cloudtest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Resolver is a World that knows where the names lead that its cloud gives load balancers, which no DNS server here does.
type Resolver interface {
	// Resolve fails for a name that leads nowhere.
	Resolve(ctx context.Context, name string) ([]netip.Addr, error)
}

// trafficPort is one on which also who is not root may listen.
const trafficPort = 8088

// clients are so many that each Node has some of them, where a client stays with its Node.
const clients = 16

// checkTraffic: clients reach the Nodes that a Service has, where a simulated cloud's instances have addresses of this machine, which
// answers for them.
func checkTraffic(t *T, x *suite) {
	for _, n := range x.nodes {
		if !n.Addresses[0].IsLoopback() {
			t.Impossible("instances run nothing that answers")
		}
	}
	p, s := x.start(t), x.service(t, string(LoadBalancerTraffic))
	s.spec.Ports[0].Port = trafficPort
	for _, n := range x.nodes {
		t.Must(answer(t, netip.AddrPortFrom(n.Addresses[0], uint16(s.spec.Ports[0].NodePort)), n.Ref.NodeName)) //nolint:gosec // a node port
	}
	all := s.spec.Members
	s.ensure(p)
	s.wantTraffic(all)
	s.spec.Members = all[1:]
	s.updateMembers(p)
	s.wantTraffic(all[1:])
	if _, lacks := x.Unsupported[LoadBalancerSources]; !lacks {
		s.spec.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		s.ensure(p)
		s.wantTraffic(nil)
		s.spec.SourceRanges = nil
		s.ensure(p)
		s.wantTraffic(all[1:])
	}
	published := s.spec.CurrentIngress
	s.delete(p)
	s.spec.CurrentIngress = published
	s.wantTraffic(nil)
}

// answer has a name be the answer to each connection to an address, until the check ends.
func answer(t *T, at netip.AddrPort, name string) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, name) // the client may have gone
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	return nil
}

// wantTraffic waits until the Nodes of members, and no others, answer where the Service is published.
func (s *service) wantTraffic(members []cloud.LoadBalancerMember) {
	var want []string
	for _, m := range members {
		want = append(want, m.Node.NodeName)
	}
	slices.Sort(want)
	var got []string
	err := s.x.eventually(s.t.Ctx, func(ctx context.Context) (bool, error) {
		got = nil
		for _, in := range s.spec.CurrentIngress {
			got = append(got, s.answers(ctx, in)...)
		}
		slices.Sort(got)
		got = slices.Compact(got)
		return slices.Equal(got, want), nil
	})
	if err != nil {
		s.t.Errorf("the Nodes %q answer, want %q", got, want)
	}
}

// answers are those that connections to a published address or name get; none where there is nobody.
func (s *service) answers(ctx context.Context, in corev1.LoadBalancerIngress) []string {
	var addresses []netip.Addr
	if a, err := netip.ParseAddr(in.IP); err == nil {
		addresses = []netip.Addr{a}
	}
	if r, is := s.x.World.(Resolver); is && in.Hostname != "" {
		addresses, _ = r.Resolve(ctx, in.Hostname)
	}
	var out []string
	for _, a := range addresses {
		for n := range byte(clients) {
			if answer := said(ctx, netip.AddrFrom4([4]byte{127, 0, 0, 10 + n}), netip.AddrPortFrom(a, trafficPort)); answer != "" {
				out = append(out, answer)
			}
		}
	}
	return out
}

// said is what a client with an address is answered at another one.
func said(ctx context.Context, client netip.Addr, at netip.AddrPort) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: client.AsSlice()}}
	conn, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return ""
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	text, _ := io.ReadAll(conn)
	return string(text)
}
