package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

// adopter takes over certificates that somebody else issues, so that their change of the CA
// fails no request either: a new CA is in the bundle for overlap before its certificates are
// served, and an old one until what was served of it has expired.
type adopter struct {
	*held
	overlap time.Duration

	// Only the goroutine that offers uses what follows.
	trusted []trust
	waiting *x509.Certificate // offered, but not served yet
}

// trust is a CA of the bundle.
type trust struct {
	ca    *x509.Certificate
	since time.Time
	// until is when it leaves the bundle; zero while it is offered.
	until time.Time
}

// offer takes a certificate with the CAs to trust for it: both now, or the certificate when
// it is offered again later. One that is not valid now does not replace one that is.
func (a *adopter) offer(ctx context.Context, cert *tls.Certificate, bundle []byte) error {
	cas, err := parseCertificates(bundle)
	if err != nil {
		return fmt.Errorf("%s: %w", keyBundle, err)
	}
	now := a.now()
	served, _ := a.GetCertificate(nil)
	a.trust(cas, served, now)
	if served != nil && !served.Leaf.Equal(cert.Leaf) && checkTime(served.Leaf, now, a.next) == nil {
		if err = checkTime(cert.Leaf, now, a.next); err != nil {
			err, cert = fmt.Errorf("%s: %w", certFile, err), served
		} else if !a.known(cert, now) {
			if !cert.Leaf.Equal(a.waiting) {
				klog.FromContext(ctx).Info("Webhook certificate is of a new CA, which is announced first", "overlap", a.overlap)
			}
			a.waiting, cert = cert.Leaf, served
		}
	}
	all := make([]*x509.Certificate, 0, len(a.trusted))
	for _, t := range a.trusted {
		all = append(all, t.ca)
	}
	a.serve(ctx, cert, encodeCertificates(all...))
	return err
}

// trust updates the bundle.
func (a *adopter) trust(cas []*x509.Certificate, served *tls.Certificate, now time.Time) {
	find := func(in []trust, ca *x509.Certificate) int {
		return slices.IndexFunc(in, func(t trust) bool { return t.ca.Equal(ca) })
	}
	var kept []trust
	for _, ca := range cas {
		t := trust{ca: ca, since: now}
		if i := find(a.trusted, ca); i >= 0 {
			t.since = a.trusted[i].since
		} else if served == nil {
			t.since = time.Time{} // there is nothing to go on with meanwhile
		}
		kept = append(kept, t)
	}
	for _, t := range a.trusted {
		if a.overlap == 0 || find(kept, t.ca) >= 0 {
			continue
		}
		if t.until.IsZero() {
			t.until = served.Leaf.NotAfter
		}
		if now.Before(t.until) {
			kept = append(kept, t)
		}
	}
	a.trusted = kept
}

// known reports whether cert holds for CAs that have been in the bundle for overlap, or for
// none that we know.
func (a *adopter) known(cert *tls.Certificate, now time.Time) bool {
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	holds := func(overlap time.Duration) bool {
		roots := x509.NewCertPool()
		for _, t := range a.trusted {
			if now.Sub(t.since) >= overlap {
				roots.AddCert(t.ca)
			}
		}
		_, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err == nil
	}
	return holds(a.overlap) || !holds(0)
}
