package server

import (
	"context"
	"crypto/tls"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// maxStreams is how many requests a client may have in flight on one HTTP/2 connection.
const maxStreams = 100

// httpServer makes what serves s. Its limits are for clients that send slowly or never end.
func (s *Server) httpServer(ctx context.Context) (*http.Server, error) {
	config, err := s.opts.tlsConfig()
	if err != nil {
		return nil, err
	}
	config.GetCertificate = s.opts.Certs.GetCertificate
	srv := &http.Server{
		Handler: s,
		// Requests in flight outlive ctx while the server drains.
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ConnContext:       withConnection,
		ConnState:         noteState,
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    16 << 10, // an API server with a token and a trace sends a part of that
		// What is buffered of a body for which there is no room yet, is little.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: 64 << 10},
		ErrorLog: stdlog.New(errorLog{klog.FromContext(ctx), s.notices}, "", 0),
	}
	if s.clients != nil {
		config.ClientAuth = tls.RequestClientCert // and verified by clients, for each request
	}
	if s.opts.DisableHTTP2 {
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	return srv, nil
}

// drain ends srv as Start promises. ended tells that srv serves no more.
func (s *Server) drain(ctx context.Context, srv *http.Server, ended <-chan struct{}) {
	logger := klog.FromContext(ctx)
	s.state.Store(stateEnding)
	logger.Info("Draining webhooks", "delay", s.opts.ShutdownDelay, "timeout", s.opts.DrainTimeout)
	if s.opts.ShutdownDelay > 0 {
		delay := s.opts.Clock.NewTimer(s.opts.ShutdownDelay)
		defer delay.Stop()
		select {
		case <-delay.C():
		case <-ended: // by itself: there is nobody to wait for
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.DrainTimeout)
	defer cancel()
	if err := shutdown(ctx, srv); err != nil {
		logger.Error(err, "Webhook requests were cut off: they did not finish in time", "timeout", s.opts.DrainTimeout)
		_ = srv.Close() // ends the contexts of what is left; its error is the listener's, closed already
	}
}

// again is how often connections are told to end.
const again = 2 * time.Second

// shutdown waits for srv's requests until ctx ends. Server.Shutdown sends GOAWAY on HTTP/2
// connections and closes them a second after their last request; those of HTTP/1.1 it closes
// when they are idle. It is called again and again, as connections whose handshake ends
// while it sends are told nothing, and would hold it up when nobody uses them.
func shutdown(ctx context.Context, srv *http.Server) error {
	for {
		turn, cancel := context.WithTimeout(ctx, again)
		err := srv.Shutdown(turn)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// errorLog takes net/http's own complaints: clients that do not trust the certificate, and
// those that ask for no TLS or go away.
type errorLog struct {
	logger  klog.Logger
	notices *notices
}

var _ io.Writer = errorLog{}

func (l errorLog) Write(p []byte) (int, error) {
	reason := strings.TrimSpace(string(p))
	if strings.Contains(reason, "remote error: tls: ") { // the client's word on our certificate, mostly
		l.notices.log(l.logger, "handshake", "Webhook client ended the TLS handshake: is the caBundle of the webhook configuration the CA of the certificate served?", "reason", reason)
	} else {
		l.logger.V(2).Info("Webhook connection failed", "reason", reason)
	}
	return len(p), nil
}
