package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// FilesOptions says where certificates are and whom they are for.
type FilesOptions struct {
	// Dir is the directory; it is made when it does not exist and a certificate is generated.
	Dir string
	// DNSNames and IPAddresses are what a generated certificate is for. Without DNS names
	// nothing is generated: the files must be there.
	DNSNames    []string
	IPAddresses []net.IP
	// Interval is how often the files are looked at; 0 means 5 s.
	Interval time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Files is the Source of a directory's files.
type Files struct {
	opts FilesOptions

	mu      sync.RWMutex
	current *pair
	problem error // why the files, as they are now, cannot be used; current is older then
}

// LoadFiles reads the certificate, or generates it where the directory has none. A certificate
// that expired is no error of LoadFiles but of Err: a webhook is no reason to keep the
// controllers of the same process from running.
func LoadFiles(o FilesOptions) (*Files, error) {
	if o.Interval == 0 {
		o.Interval = 5 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Files{opts: o}
	if _, err := s.issueIfDue(true); err != nil {
		return nil, err
	}
	p, err := readPair(o.Dir)
	if err != nil {
		return nil, err
	}
	s.current = p
	return s, nil
}

var _ Source = (*Files)(nil)

// GetCertificate is for tls.Config.
func (s *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &s.current.cert, nil
}

// CABundle returns ca.crt; empty when there is none.
func (s *Files) CABundle() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return bytes.Clone(s.current.ca)
}

// NotAfter returns when the certificate expires.
func (s *Files) NotAfter() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current.cert.Leaf.NotAfter
}

// Err returns nil while the certificate is valid, and otherwise what to do about it.
func (s *Files) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	err := s.current.checkTime(s.opts.Now())
	if err == nil {
		return nil
	}
	if s.problem != nil {
		return fmt.Errorf("%w; the files there now cannot be used: %w", err, s.problem)
	}
	return err
}

// Run follows the files, and renews a certificate of ours, until ctx ends. What is wrong
// with new files, or that they are gone, is logged; the certificate in use stays until they
// are right.
func (s *Files) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("certDir", s.opts.Dir)
	if err := s.Err(); err != nil {
		logger.Error(err, "Webhook certificate is not valid")
	}
	ticker := time.NewTicker(s.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.refresh(logger)
		}
	}
}

// refresh renews and reads again once.
func (s *Files) refresh(logger klog.Logger) {
	renewed, issueErr := s.issueIfDue(false)
	if renewed != "" {
		logger.Info("Webhook certificate was issued", "reason", renewed)
	}
	p, readErr := readPair(s.opts.Dir)
	err := errors.Join(issueErr, readErr)

	s.mu.Lock()
	changed := readErr == nil && !s.current.equal(p)
	if readErr == nil {
		s.current = p
	}
	news := err != nil && (s.problem == nil || s.problem.Error() != err.Error())
	s.problem = err
	s.mu.Unlock()

	if news {
		logger.Error(err, "Webhook certificate could not be read again; the one in use stays")
	}
	if changed {
		logger.Info("Webhook certificate was read again", "notAfter", p.cert.Leaf.NotAfter)
		if err := s.Err(); err != nil {
			logger.Error(err, "Webhook certificate is not valid")
		}
	}
}
