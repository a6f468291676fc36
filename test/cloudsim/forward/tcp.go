package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// acceptPause is waited after a failed accept, as when the process has no file descriptors left.
const acceptPause = 50 * time.Millisecond

func (f *Forward) listenTCP() error {
	var lc net.ListenConfig
	ln, err := lc.Listen(f.ctx, "tcp", f.key.At.String())
	if err != nil {
		return fmt.Errorf("listen for a load balancer: %w", err)
	}
	f.close = ln.Close
	context.AfterFunc(f.ctx, func() { _ = ln.Close() })
	if f.key.HTTP {
		f.serveHTTP(ln)
		return nil
	}
	f.spawn(func(context.Context) { f.acceptAll(ln) })
	return nil
}

func (f *Forward) acceptAll(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err == nil {
			f.spawn(func(context.Context) { f.relay(conn) })
			continue
		}
		if f.ctx.Err() != nil || errors.Is(err, net.ErrClosed) || !f.pause(acceptPause) {
			return
		}
	}
}

// relay forwards one connection to the first member that takes it.
func (f *Forward) relay(client net.Conn) {
	defer func() { _ = client.Close() }()
	defer context.AfterFunc(f.ctx, func() { _ = client.Close() })()
	from := clientAddr(client.RemoteAddr())
	t := f.route(from.Addr())
	if !t.allows(from.Addr()) {
		abort(client)
		return
	}
	member, err := f.dial(f.ctx, t, from.Addr())
	if err != nil {
		abort(client)
		return
	}
	defer func() { _ = member.Close() }()
	defer context.AfterFunc(f.ctx, func() { _ = member.Close() })()
	if _, err := member.Write(proxyHeader(t.Proxy, from, f.key.At)); err != nil {
		return
	}
	done := make(chan struct{})
	f.spawn(func(context.Context) {
		defer close(done)
		pipe(member, client)
	})
	pipe(client, member)
	<-done
}

// abort resets a connection, which is how a closed port looks like.
func abort(conn net.Conn) {
	if t, is := conn.(*net.TCPConn); is {
		_ = t.SetLinger(0)
	}
}

// pipe copies until the end, then tells the other side.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if t, is := to.(*net.TCPConn); is && err == nil {
		_ = t.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}

// dial connects to the first member that takes the connection; dead ones are skipped.
func (f *Forward) dial(ctx context.Context, t *Target, client netip.Addr) (net.Conn, error) {
	err := errors.New("no member")
	for _, b := range f.order(t, client) {
		d := net.Dialer{Timeout: t.Connect}
		if t.From.IsValid() && t.From.Is4() == b.Addr().Is4() {
			d.LocalAddr = &net.TCPAddr{IP: t.From.AsSlice()}
		}
		var conn net.Conn
		if conn, err = d.DialContext(ctx, "tcp", b.String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// proxyHeader is the PROXY protocol's header of a version; none for 0.
func proxyHeader(version int, from, to netip.AddrPort) []byte {
	switch version {
	case 1:
		family := "TCP4"
		if from.Addr().Is6() {
			family = "TCP6"
		}
		return fmt.Appendf(nil, "PROXY %s %s %s %d %d\r\n", family, from.Addr(), to.Addr(), from.Port(), to.Port())
	case 2:
		out := []byte("\r\n\r\n\x00\r\nQUIT\n\x21")
		family := byte(0x11)
		if from.Addr().Is6() {
			family = 0x21
		}
		a, b := from.Addr().AsSlice(), to.Addr().AsSlice()
		out = append(out, family)
		out = binary.BigEndian.AppendUint16(out, uint16(len(a)+len(b)+4))
		out = append(append(out, a...), b...)
		out = binary.BigEndian.AppendUint16(out, from.Port())
		return binary.BigEndian.AppendUint16(out, to.Port())
	}
	return nil
}

// serveHTTP forwards requests with the headers that the listener inserts.
func (f *Forward) serveHTTP(ln net.Listener) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			from, _ := ctx.Value(clientKey{}).(netip.AddrPort)
			t := f.route(from.Addr())
			if !t.allows(from.Addr()) {
				return nil, errors.New("the listener has gone")
			}
			conn, err := f.dial(ctx, t, from.Addr())
			if err != nil {
				return nil, err
			}
			if _, err := conn.Write(proxyHeader(t.Proxy, from, f.key.At)); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return conn, nil
		},
	}
	quiet := log.New(io.Discard, "", 0) // clients and members come and go as tests want it
	proxy := &httputil.ReverseProxy{Transport: transport, ErrorLog: quiet, Rewrite: f.rewrite,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusServiceUnavailable) }}
	srv := &http.Server{ReadHeaderTimeout: 30 * time.Second, ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ap, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !f.route(ap.Addr().Unmap()).allows(ap.Addr().Unmap()) {
			panic(http.ErrAbortHandler) // net/http's way to cut a connection
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, ap)))
	})}
	var conns sync.WaitGroup // of the connections' goroutines; ConnContext runs before they start
	srv.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		conns.Add(1)
		return ctx
	}
	srv.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			conns.Done()
		}
	}
	f.spawn(func(context.Context) {
		_ = srv.Serve(ln) // ends when the listener is closed
		_ = srv.Close()
		conns.Wait()
	})
}

// clientKey is the context key of a request's client address.
type clientKey struct{}

func (f *Forward) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(&url.URL{Scheme: "http", Host: r.In.Host})
	r.Out.Host = r.In.Host
	from, _ := r.In.Context().Value(clientKey{}).(netip.AddrPort)
	t := f.route(from.Addr())
	on := func(h string) bool { return t != nil && slices.Contains(t.Headers, h) }
	r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	if on("X-Forwarded-For") {
		r.Out.Header.Add("X-Forwarded-For", from.Addr().Unmap().String())
	}
	if on("X-Forwarded-Port") {
		r.Out.Header.Set("X-Forwarded-Port", strconv.Itoa(int(f.key.At.Port())))
	}
	if on("X-Forwarded-Proto") {
		r.Out.Header.Set("X-Forwarded-Proto", "http")
	}
}
