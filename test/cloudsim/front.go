package cloudsim

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// FrontOptions say what a Front is the way into.
type FrontOptions struct {
	// Cloud is its name, for messages.
	Cloud string
	// Knows reports whether the cloud has a host of this name. Others are refused.
	Knows func(host string) bool
	// Handle answers a request to a host, "" for the simulator itself, spoken to directly.
	Handle func(w http.ResponseWriter, r *http.Request, host string)
}

// Front is how clients reach a simulated cloud: at URL directly, without TLS, or with Env as what they
// take for their HTTPS proxy, which ends the TLS connections to the cloud's names itself. All
// methods may be called concurrently.
type Front struct {
	opts     FrontOptions
	url      string
	dir      string
	ca       *authority
	listener net.Listener
	http     *http.Server // of what comes directly
	tunnels  *tunnels     // of what comes through the proxy
	ctx      context.Context
	stop     context.CancelFunc
	serving  sync.WaitGroup
	inFlight sync.WaitGroup
	connects atomic.Int32
	closed   sync.Once

	obs observer
}

// OpenFront starts to listen on a loopback address.
func OpenFront(o FrontOptions) (*Front, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := &Front{opts: o, ctx: ctx, stop: stop}
	if err := f.setUp(); err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("the simulated %s: %w", o.Cloud, err), f.removeFiles())
	}
	f.http = f.server(http.HandlerFunc(f.direct))
	f.tunnels = newTunnels(f.listener.Addr())
	inner := f.server(http.HandlerFunc(f.tunneled))
	f.serve(f.http, f.listener)
	f.serve(inner, f.tunnels)
	return f, nil
}

func (f *Front) setUp() error {
	var err error
	if f.dir, err = os.MkdirTemp("", "isthmus-cloudsim-"); err != nil {
		return err
	}
	if f.ca, err = newAuthority("simulated "+f.opts.Cloud+" Root CA", f.CAFile()); err != nil {
		return err
	}
	if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // listening on a loopback address does not wait
		return err
	}
	f.url = "http://" + f.listener.Addr().String()
	return nil
}

func (f *Front) server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
}

func (f *Front) serve(server *http.Server, on net.Listener) {
	f.serving.Add(1)
	go func() {
		defer f.serving.Done()
		context.AfterFunc(f.ctx, func() { _ = server.Close() })
		_ = server.Serve(on) // ends at Close with ErrServerClosed
	}()
}

// Close ends the simulator. It may be called more than once.
func (f *Front) Close() {
	f.closed.Do(func() {
		f.stop()
		_ = f.http.Close()
		_ = f.tunnels.Close()
		f.serving.Wait()
		f.inFlight.Wait()
		_ = f.removeFiles()
	})
}

func (f *Front) removeFiles() error {
	if f.dir == "" {
		return nil
	}
	return os.RemoveAll(f.dir)
}

// URL is where the simulator can be spoken to directly, without TLS.
func (f *Front) URL() string { return f.url }

// CAFile is the file with the CA that vouches for the cloud's names. It is removed by Close.
func (f *Front) CAFile() string { return filepath.Join(f.dir, "ca.pem") }

// ProxyEnv are the environment variables with which a process takes the simulator for its proxy
// and trusts its CA.
func (f *Front) ProxyEnv() []string {
	return []string{"HTTPS_PROXY=" + f.url, "HTTP_PROXY=" + f.url, "NO_PROXY=", "SSL_CERT_FILE=" + f.CAFile()}
}

// direct answers what does not come through the proxy, and opens the way for what does.
func (f *Front) direct(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		f.connect(w, r)
	case r.URL.IsAbs(): // a proxy's request without TLS
		f.refuse(w, r.Host)
	default:
		f.opts.Handle(w, r, "")
	}
}

func (f *Front) tunneled(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	f.opts.Handle(w, r, strings.ToLower(host))
}

func (f *Front) refuse(w http.ResponseWriter, host string) {
	f.obs.refuse(host)
	http.Error(w, "no such host: "+host, http.StatusBadGateway)
}

// Connects is how many connections through the proxy were asked for, those that were refused included.
func (f *Front) Connects() int { return int(f.connects.Load()) }

// connect answers CONNECT: for a name that the cloud has it ends the TLS connection itself.
func (f *Front) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.Host)
	host = strings.ToLower(host)
	f.connects.Add(1)
	if err != nil || port != "443" || !f.opts.Knows(host) {
		f.refuse(w, r.Host)
		return
	}
	cert, err := f.ca.certificate(host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
		_ = conn.Close()
		return
	}
	f.tunnels.add(tls.Server(buffered{conn, rw.Reader}, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cert}}))
}

// tunnels is a net.Listener of the connections that came through the proxy.
type tunnels struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newTunnels(addr net.Addr) *tunnels {
	return &tunnels{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (t *tunnels) add(c net.Conn) {
	select {
	case t.conns <- c:
	case <-t.done:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-t.conns:
		return c, nil
	case <-t.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.once.Do(func() { close(t.done) })
	return nil
}

// Addr implements net.Listener.
func (t *tunnels) Addr() net.Addr { return t.addr }

// buffered is a connection of which something was read ahead.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// Intercept makes a transport go through the simulator and trust its CA.
func (f *Front) Intercept(transport *http.Transport) error {
	data, err := os.ReadFile(f.CAFile())
	if err != nil {
		return fmt.Errorf("the CA of the simulated %s: %w", f.opts.Cloud, err)
	}
	proxy, err := url.Parse(f.url)
	if err != nil {
		return fmt.Errorf("the address of the simulated %s: %w", f.opts.Cloud, err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(data)
	transport.Proxy = http.ProxyURL(proxy)
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	return nil
}
