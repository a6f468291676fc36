package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// udpIdle is how long a client keeps its member without traffic.
	udpIdle = 30 * time.Second
	// maxUDPClients bounds the sockets of one listener.
	maxUDPClients = 1024
	maxDatagram   = 64 << 10
)

// udpForward relays datagrams; each client has its own socket to its member.
type udpForward struct {
	*Forward
	conn *net.UDPConn

	mu      sync.Mutex
	clients map[netip.AddrPort]*udpClient
}

type udpClient struct {
	conn   *net.UDPConn
	member netip.AddrPort
	// last is the newest datagram, sent again to another member when this one refuses it.
	last []byte
	// left are the members that are still to be tried when this one refuses.
	left []netip.AddrPort
}

func (f *Forward) listenUDP() error {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(f.key.At))
	if err != nil {
		return fmt.Errorf("listen for a load balancer: %w", err)
	}
	f.close = conn.Close
	context.AfterFunc(f.ctx, func() { _ = conn.Close() })
	u := &udpForward{Forward: f, conn: conn, clients: map[netip.AddrPort]*udpClient{}}
	f.spawn(func(context.Context) { u.readAll() })
	return nil
}

func (u *udpForward) readAll() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := u.conn.ReadFromUDPAddrPort(buf)
		if err == nil {
			u.send(netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), slices.Clone(buf[:n]))
			continue
		}
		if u.ctx.Err() != nil || errors.Is(err, net.ErrClosed) || !u.pause(acceptPause) {
			return
		}
	}
}

// send passes a client's datagram on to its member.
func (u *udpForward) send(from netip.AddrPort, data []byte) {
	t := u.route(from.Addr())
	if !t.allows(from.Addr()) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.clients[from]
	if c != nil && !slices.Contains(t.Backends, c.member) {
		_ = c.conn.Close()
		delete(u.clients, from)
		c = nil
	}
	if c == nil {
		if c = u.connect(from, u.order(t, from.Addr()), data); c == nil {
			return
		}
	}
	c.last = data
	_, _ = c.conn.Write(data) // a refusal shows in the reader
}

// connect opens a client's socket to the first of the members; u.mu held.
func (u *udpForward) connect(from netip.AddrPort, members []netip.AddrPort, data []byte) *udpClient {
	if len(members) == 0 || len(u.clients) >= maxUDPClients {
		return nil
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(members[0]))
	if err != nil {
		return nil
	}
	c := &udpClient{conn: conn, member: members[0], left: members[1:], last: data}
	u.clients[from] = c
	u.spawn(func(context.Context) { u.answers(from, c) })
	return c
}

// answers passes a member's datagrams back until the client has been idle for long.
func (u *udpForward) answers(from netip.AddrPort, c *udpClient) {
	defer context.AfterFunc(u.ctx, func() { _ = c.conn.Close() })()
	defer func() { _ = c.conn.Close() }()
	buf := make([]byte, maxDatagram)
	for {
		if c.conn.SetReadDeadline(time.Now().Add(udpIdle)) != nil {
			u.forget(from, c, false)
			return
		}
		n, err := c.conn.Read(buf)
		if err != nil {
			var timeout net.Error
			refused := !errors.Is(err, net.ErrClosed) && (!errors.As(err, &timeout) || !timeout.Timeout())
			u.forget(from, c, refused)
			return
		}
		_, _ = u.conn.WriteToUDPAddrPort(buf[:n], from) // the client may have gone
	}
}

// forget ends a client's socket; when its member refused, the next one gets the newest datagram.
func (u *udpForward) forget(from netip.AddrPort, c *udpClient, refused bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.clients[from] != c {
		return
	}
	delete(u.clients, from)
	if !refused || u.ctx.Err() != nil {
		return
	}
	if next := u.connect(from, c.left, c.last); next != nil {
		_, _ = next.conn.Write(c.last)
	}
}
