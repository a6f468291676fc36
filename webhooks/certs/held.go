package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/webhooks/watched"
)

// held is the part of a Source that is asked while requests are served: what was found last.
type held struct {
	where string // what has the certificate, for errors
	next  string // what to do about one that expired
	now   func() time.Time

	mu     sync.RWMutex
	cert   *tls.Certificate
	bundle []byte
	err    error // why what is there now cannot be used; cert is older then
}

func newHeld(where, next string, now func() time.Time) *held {
	return &held{where: where, next: next, now: now, err: watched.ErrNotRead}
}

// GetCertificate is for tls.Config.
func (h *held) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.cert == nil {
		return nil, h.missing()
	}
	return h.cert, nil
}

// CABundle returns the CAs to trust.
func (h *held) CABundle() []byte {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return bytes.Clone(h.bundle)
}

// NotAfter returns when the certificate expires; zero while there is none.
func (h *held) NotAfter() time.Time {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.cert == nil {
		return time.Time{}
	}
	return h.cert.Leaf.NotAfter
}

// Err returns nil while the certificate is valid, and otherwise what to do about it.
func (h *held) Err() error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.cert == nil {
		return h.missing()
	}
	err := checkTime(h.cert.Leaf, h.now(), h.next)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("webhook certificate: %s: %w", h.where, err)
	if h.err != nil {
		err = fmt.Errorf("%w; what is there now cannot be used: %w", err, h.err)
	}
	return err
}

// missing says why there is no certificate. The caller holds mu.
func (h *held) missing() error {
	return fmt.Errorf("webhook certificate: %s: %w", h.where, h.err)
}

// serve takes a certificate and the CAs to trust.
func (h *held) serve(ctx context.Context, cert *tls.Certificate, bundle []byte) {
	h.mu.Lock()
	changed := h.cert == nil || !h.cert.Leaf.Equal(cert.Leaf)
	h.cert, h.bundle = cert, bundle
	h.mu.Unlock()
	if changed {
		klog.FromContext(ctx).Info("Serving webhooks with another certificate", "serial", cert.Leaf.SerialNumber, "notAfter", cert.Leaf.NotAfter)
	}
}

// problem says why what is there now cannot be used; nil for nothing. News are logged.
func (h *held) problem(ctx context.Context, err error) {
	h.mu.Lock()
	news := err != nil && !errors.Is(err, watched.ErrNotRead) && (h.err == nil || h.err.Error() != err.Error())
	h.err = err
	h.mu.Unlock()
	if news {
		klog.FromContext(ctx).Error(err, "Webhook certificate cannot be read or renewed; one in use stays")
	}
}

// waits is problem for what takes its time, which the caller logs.
func (h *held) waits(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// runWatch calls do whenever w changes and after each interval, until ctx ends.
func runWatch(ctx context.Context, w secretWatch, interval time.Duration, do func(context.Context)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.Run(quiet(ctx)) })
	g.Go(func() error {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-w.Changed:
			case <-ticker.C:
			}
			do(ctx)
		}
	})
	return g.Wait()
}
