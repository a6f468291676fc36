package serving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	stdlog "log"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	certutil "k8s.io/client-go/util/cert"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/leader"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

const (
	// minTLSVersion is the default minimum of the secure port.
	minTLSVersion = tls.VersionTLS12
	// writeTimeout is how long a client may take to read an answer.
	writeTimeout = 30 * time.Second
	// pairName names the files in --cert-dir.
	pairName = "cloud-controller-manager"
	// selfSignedMargin is how long before its end a self-signed certificate in memory is replaced.
	selfSignedMargin = 30 * 24 * time.Hour
)

// secureMux returns the handlers of the secure port; status is that of /status.
func secureMux(o *options.Options, status http.Handler, checks []*Checks) (http.Handler, error) {
	config, err := o.Configz()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode /configz: %w", err)
	}
	mux := http.NewServeMux()
	paths := []string{"/configz", "/flagz", "/metrics", "/status", "/statusz"}
	for _, c := range checks {
		paths = append(paths, "/"+c.endpoint)
		mux.Handle("/"+c.endpoint, c)
		mux.Handle("/"+c.endpoint+"/", c)
	}
	mux.Handle("/metrics", metricsHandler())
	mux.Handle("/status", status)
	mux.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // a client that left needs no answer
	})
	if d := o.Component.Generic.Debugging; d.EnableProfiling {
		if d.EnableContentionProfiling {
			runtime.SetBlockProfileRate(1)
		}
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		paths = append(paths, "/debug/pprof")
	}
	mux.Handle("/statusz", handleStatusz(time.Now(), time.Now, slices.Sorted(slices.Values(paths))))
	mux.Handle("/flagz", handleFlagz(o.FlagValues))
	return readInTime(mux), nil
}

// readInTime gives up clients that do not read their answer in time: the server itself would wait for them for ever. A profile takes as
// long as its client says.
func readInTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		until := time.Now().Add(writeTimeout)
		if strings.HasPrefix(r.URL.Path, "/debug/pprof/") {
			until = time.Time{} // also where the connection had one, of a page before
		}
		_ = http.NewResponseController(w).SetWriteDeadline(until) // a server's can
		next.ServeHTTP(w, r)
	})
}

// secureServer returns what serves handler on the secure port, with what else must run for
// that, and binds the port.
func secureServer(ctx context.Context, s options.Serving, handler http.Handler) (*manager.Server, []manager.Runnable, error) {
	config, runnables, err := tlsConfig(s)
	if err != nil {
		return nil, nil, err
	}
	listener := s.Listener
	if listener == nil {
		address := net.JoinHostPort(s.BindAddress.String(), strconv.Itoa(s.Port))
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
			return nil, nil, fmt.Errorf("secure port: %w: choose another --secure-port or --bind-address", err)
		}
	}
	timeout := 5 * time.Second
	srv := &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          stdlog.New(serverLog{klog.FromContext(ctx)}, "", 0),
	}
	if s.MaxStreams > 0 {
		srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: s.MaxStreams}
	}
	if s.DisableHTTP2 {
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	return &manager.Server{Name: "secure port", Server: srv, Listener: tls.NewListener(listener, config), ShutdownTimeout: &timeout}, runnables, nil
}

// serverLog takes net/http's complaints, mostly about clients that do not trust the certificate.
type serverLog struct{ logger klog.Logger }

// Write implements io.Writer.
func (l serverLog) Write(p []byte) (int, error) {
	l.logger.V(2).Info("Connection to the secure port failed", "reason", strings.TrimSpace(string(p)))
	return len(p), nil
}

func tlsConfig(s options.Serving) (*tls.Config, []manager.Runnable, error) {
	config := &tls.Config{MinVersion: minTLSVersion, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"}}
	if s.DisableHTTP2 {
		config.NextProtos = []string{"http/1.1"}
	}
	var errs []error
	if s.MinTLSVersion != "" {
		v, err := cliflag.TLSVersion(s.MinTLSVersion)
		config.MinVersion, errs = v, append(errs, err)
	}
	if len(s.CipherSuites) > 0 {
		suites, err := cliflag.TLSCipherSuites(s.CipherSuites)
		config.CipherSuites, errs = suites, append(errs, err)
	}
	if len(s.CurvePreferences) > 0 {
		curves, err := cliflag.TLSCurvePreferences(s.CurvePreferences)
		config.CurvePreferences, errs = curves, append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("secure port: %w", err)
	}
	certFile, keyFile, err := certificateFiles(s)
	if err != nil {
		return nil, nil, err
	}
	if certFile == "" {
		generated := &selfSigned{names: selfSignedNames(s.BindAddress), now: time.Now}
		config.GetCertificate = generated.get
		return config, nil, nil
	}
	watcher, err := certwatcher.New(certFile, keyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of the secure port (%s, %s): %w: check --tls-cert-file and --tls-private-key-file", certFile, keyFile, err)
	}
	config.GetCertificate = watcher.GetCertificate
	return config, []manager.Runnable{leader.EveryReplica{Run: watcher.Start}}, nil
}

// certificateFiles returns the files of the certificate, writing a self-signed one into
// --cert-dir when that has none; empty means that it shall live in memory.
func certificateFiles(s options.Serving) (certFile, keyFile string, err error) {
	if s.CertFile != "" || s.CertDir == "" {
		return s.CertFile, s.KeyFile, nil
	}
	certFile, keyFile = filepath.Join(s.CertDir, pairName+".crt"), filepath.Join(s.CertDir, pairName+".key")
	switch _, err := os.Stat(certFile); {
	case err == nil:
		return certFile, keyFile, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", "", fmt.Errorf("--cert-dir: %w", err)
	}
	cert, key, err := selfSignedPEM(selfSignedNames(s.BindAddress))
	if err == nil {
		if err = certutil.WriteCert(certFile, cert); err == nil {
			err = os.WriteFile(keyFile, key, 0o600)
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("--cert-dir: write a self-signed certificate: %w", err)
	}
	return certFile, keyFile, nil
}

// selfSignedNames are the IP addresses in a self-signed certificate, beside localhost.
func selfSignedNames(bind net.IP) []net.IP {
	ips := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if bind != nil && !bind.IsUnspecified() && !bind.IsLoopback() {
		ips = append(ips, bind)
	}
	return ips
}

func selfSignedPEM(ips []net.IP) (cert, key []byte, err error) {
	return certutil.GenerateSelfSignedCertKey("localhost", ips, nil)
}

// selfSigned is a certificate in memory that is replaced before it ends.
type selfSigned struct {
	names []net.IP
	now   func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	until   time.Time
}

func (s *selfSigned) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.now().Add(selfSignedMargin).Before(s.until) {
		return s.current, nil
	}
	cert, key, err := selfSignedPEM(s.names)
	if err != nil {
		return nil, fmt.Errorf("make a self-signed certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("make a self-signed certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("make a self-signed certificate: %w", err)
	}
	s.current, s.until = &pair, leaf.NotAfter
	return s.current, nil
}
