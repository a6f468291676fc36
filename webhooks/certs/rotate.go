package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// policy says when what is issued. A certificate is renewed when a third of its life is
// left. A CA's successor is published when a third of the CA's life is left, and issues when
// a sixth is left, but never before it was published for overlap.
type policy struct {
	ca, cert, overlap time.Duration
	hosts             []string
}

// defaultPolicy: between the publication of a CA and its use are two months, for caBundles
// that people keep. A CA whose key is gone is replaced after overlap.
func defaultPolicy(hosts []string) policy {
	return policy{ca: 365 * 24 * time.Hour, cert: 30 * 24 * time.Hour, overlap: time.Hour, hosts: hosts}
}

// rotate returns what the Secret must hold at now, given what it holds (the zero state for
// nothing), and why it differs; without reasons it does not. It keeps these promises:
//   - the leaf is issued by a CA that was in the bundle for overlap before, unless nothing
//     could be served otherwise;
//   - a CA is in the bundle until all that it issued expired.
func (p policy) rotate(s state, now time.Time) (state, []string, error) {
	var why []string
	s.retired = slices.DeleteFunc(slices.Clone(s.retired), func(r retired) bool {
		gone := expired(r.last, now.Add(-backdate))
		if gone {
			why = append(why, "all that a retired CA issued has expired")
		}
		return gone
	})
	var err error
	if s.next != nil && (expired(s.next.cert, now) || stuck(s, now) && early(s.next.cert, now)) {
		s.next = nil
	}
	if s.issuer == nil {
		if s.issuer, err = newAuthority(now, p.ca); err != nil {
			return state{}, nil, err
		}
		why = append(why, "there is none")
	}
	if s.next == nil && p.needsSuccessor(s.issuer, now) {
		if s.next, err = newAuthority(now, p.ca); err != nil {
			return state{}, nil, err
		}
		why = append(why, "the CA needs a successor")
	}
	if s.next != nil && p.succeeds(s, now) {
		s = s.succeed(now)
		why = append(why, "the CA's successor takes over")
	}
	reason := p.leafReason(s, now)
	if reason != "" {
		hosts := slices.Clone(p.hosts)
		if s.leaf != nil {
			hosts = append(hosts, hostsOf(s.leaf.Leaf)...) // those of replicas with other flags
		}
		slices.Sort(hosts)
		if s.leaf, err = s.issuer.issue(now, p.cert, slices.Compact(hosts)); err != nil {
			return state{}, nil, err
		}
		why = append(why, reason)
	}
	if len(why) == 0 && !s.complete() {
		why = append(why, keyBundle+" is not what follows from the other keys")
	}
	s.bundle = s.trusted()
	return s, why, nil
}

func (p policy) needsSuccessor(issuer *authority, now time.Time) bool {
	return issuer.key == nil || early(issuer.cert, now) || remaining(issuer.cert, now) < p.ca/3
}

// succeeds reports whether the next CA is to issue from now on.
func (p policy) succeeds(s state, now time.Time) bool {
	if stuck(s, now) {
		return true
	}
	known := now.Sub(s.next.published()) >= p.overlap
	return known && (s.issuer.key == nil || remaining(s.issuer.cert, now) < p.ca/6)
}

// stuck reports whether nothing can be served until another CA issues.
func stuck(s state, now time.Time) bool {
	usable := func(cert *x509.Certificate) bool { return !expired(cert, now) && !early(cert, now) }
	return s.issuer != nil && (!usable(s.issuer.cert) || (s.issuer.key == nil && (s.leaf == nil || !usable(s.leaf.Leaf))))
}

// succeed puts the next CA in the issuer's place.
func (s state) succeed(now time.Time) state {
	last := s.issuer.cert // when it is not known what it issued
	if s.leaf != nil {
		last = s.leaf.Leaf
	}
	if !expired(last, now) {
		s.retired = append(slices.Clone(s.retired), retired{ca: s.issuer.cert, last: last})
	}
	s.issuer, s.next = s.next, nil
	return s
}

// leafReason says why the leaf must be issued anew.
func (p policy) leafReason(s state, now time.Time) string {
	if s.issuer.key == nil {
		return "" // its successor will
	}
	if s.leaf == nil {
		return "there is no serving certificate"
	}
	leaf := s.leaf.Leaf
	if leaf.CheckSignatureFrom(s.issuer.cert) != nil {
		return "the CA is another"
	}
	if early(leaf, now) {
		return "the serving certificate is not valid yet"
	}
	if remaining(leaf, now) < p.cert/3 && s.issuer.leafEnd(now, p.cert).After(leaf.NotAfter.Add(time.Second)) {
		return "the serving certificate is about to expire"
	}
	for _, host := range p.hosts {
		if leaf.VerifyHostname(host) != nil {
			return "the serving certificate is not for " + host
		}
	}
	return ""
}

func expired(cert *x509.Certificate, now time.Time) bool { return now.After(cert.NotAfter) }

// early reports whether cert is not valid yet: the clock of who issued it runs ahead, or this one
// is slow.
func early(cert *x509.Certificate, now time.Time) bool { return now.Before(cert.NotBefore) }

func remaining(cert *x509.Certificate, now time.Time) time.Duration { return cert.NotAfter.Sub(now) }

func encodeLeafKey(leaf *tls.Certificate) ([]byte, error) {
	key, ok := leaf.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("encode key: not an EC key")
	}
	return encodeKey(key)
}

// checkTime says whether cert is valid at now; next is what to do when it has expired.
func checkTime(cert *x509.Certificate, now time.Time, next string) error {
	switch {
	case expired(cert, now):
		return fmt.Errorf("the certificate expired at %s; %s", cert.NotAfter.Format(time.RFC3339), next)
	case early(cert, now):
		return fmt.Errorf("the certificate is not valid before %s; check the clocks of this host and of who issued it", cert.NotBefore.Format(time.RFC3339))
	}
	return nil
}
