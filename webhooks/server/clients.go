package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/pkg/clientca"
)

// Why a client is refused, as the metrics name it.
const (
	clientUnknown   = "no_certificate"
	clientExpired   = "expired"
	clientUntrusted = "untrusted"
	clientUnnamed   = "name_not_allowed"
)

// recheck is how long the verdict on a connection's client holds.
const recheck = time.Minute

// clients says who may ask the webhooks: who has a certificate of an authority of the file,
// and one of the names, if there are any. It is asked for each request to a webhook and not
// in the handshake, so that probes of the health endpoints need no certificate.
type clients struct {
	authorities *clientca.File
	names       []string
	metrics     *metrics
	notices     *notices
	clock       clock.PassiveClock
}

// refusal is why a client may not ask: HTTP status, reason and words for the API server.
type refusal struct {
	status          int
	reason, message string
}

// verdict is what was decided on a client at a time, by roots.
type verdict struct {
	at      time.Time
	roots   *x509.CertPool
	refusal *refusal
}

// refuse returns nil for a client that may ask. It decides once a minute for each connection,
// and when the file has changed.
func (c *clients) refuse(r *http.Request) *refusal {
	now := c.clock.Now()
	roots, err := c.authorities.Roots(now)
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "The authorities of webhook clients (--webhook-client-ca-file) could not be read again, those read last count")
	}
	conn := connectionOf(r)
	v := conn.last()
	if v == nil || v.roots != roots || now.Sub(v.at) > recheck {
		v = &verdict{at: now, roots: roots, refusal: c.decide(r, roots, now)}
		conn.keep(v)
		if v.refusal != nil {
			c.notices.log(klog.FromContext(r.Context()), v.refusal.reason, "Webhook client is not accepted: the failurePolicy decides what becomes of its objects",
				"client", r.RemoteAddr, "reason", v.refusal.reason, "message", v.refusal.message)
		}
	}
	if v.refusal != nil {
		c.metrics.rejected.WithLabelValues(v.refusal.reason).Inc()
	}
	return v.refusal
}

func (c *connection) last() *verdict {
	if c == nil {
		return nil
	}
	return c.verdict.Load()
}

func (c *connection) keep(v *verdict) {
	if c != nil {
		c.verdict.Store(v)
	}
}

func (c *clients) decide(r *http.Request, roots *x509.CertPool, now time.Time) *refusal {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return &refusal{http.StatusUnauthorized, clientUnknown,
			"this webhook server accepts only clients with a certificate of --webhook-client-ca-file: give the API server one, " +
				"by --admission-control-config-file and a kubeconfig with a user for this webhook's host"}
	}
	leaf := r.TLS.PeerCertificates[0]
	if err := clientca.Verify(r.TLS.PeerCertificates, roots, now); err != nil {
		reason := clientUntrusted
		var invalid x509.CertificateInvalidError
		if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
			reason = clientExpired
		}
		return &refusal{http.StatusForbidden, reason, fmt.Sprintf(
			"the client certificate %q is not accepted: %s; the API server needs one of an authority in --webhook-client-ca-file", clip(leaf.Subject.CommonName), clip(err.Error()))}
	}
	names := append([]string{leaf.Subject.CommonName}, leaf.DNSNames...)
	if len(c.names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(c.names, n) }) {
		return &refusal{http.StatusForbidden, clientUnnamed, fmt.Sprintf(
			"the client certificate's names (%s) are not among --webhook-client-allowed-names: add one of them there, or give the API server another certificate", clip(strings.Join(names, ", ")))}
	}
	return nil
}
