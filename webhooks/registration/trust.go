package registration

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// trust knows which CAs the API server is to trust: this replica's own, and for some time
// those that other replicas have written. Replicas learn of a new CA one after the other, and
// one that restarts may know less than before: none takes away what another serves with.
type trust struct {
	// keep is how long a CA stays that this replica does not know.
	keep   time.Duration
	own    []string
	others map[string]time.Time // and since when they are known; zero for those in use
	// left are those that were taken away. One that comes back is in use by a replica that is
	// not to be disturbed again: it stays while it is valid.
	left map[string]bool
}

func newTrust(keep time.Duration) trust {
	return trust{keep: keep, others: map[string]time.Time{}, left: map[string]bool{}}
}

// observe notes the CAs of live, if one of ours has written them.
func (t *trust) observe(live *configuration, now time.Time) {
	if live == nil || injected(live) || len(live.Webhooks) == 0 {
		return
	}
	standing, ok := standingCAs(live)
	if !ok {
		return
	}
	maps.DeleteFunc(t.others, func(ca string, since time.Time) bool {
		gone := !slices.Contains(standing, ca)
		if gone && now.Sub(since) >= t.keep {
			t.left[ca] = true
		}
		return gone
	})
	for _, ca := range standing {
		if _, known := t.others[ca]; !known {
			t.others[ca] = now
			if t.left[ca] {
				t.others[ca] = time.Time{}
			}
		}
	}
	for _, ca := range t.own {
		delete(t.others, ca)
	}
}

// wanted returns the CAs to trust now, sorted.
func (t *trust) wanted(now time.Time) []string {
	out := t.valid(now)
	for ca, since := range t.others {
		if (since.IsZero() || now.Sub(since) < t.keep) && valid(ca, now) {
			out = append(out, ca)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// valid returns this replica's own CAs that have not expired; all of them if they all have.
func (t *trust) valid(now time.Time) []string {
	expired := func(ca string) bool { return !valid(ca, now) }
	if out := slices.DeleteFunc(slices.Clone(t.own), expired); len(out) > 0 {
		return out
	}
	return slices.Clone(t.own)
}

// lacks reports whether live does not trust a CA of this replica's that it is to trust.
func (t *trust) lacks(live *configuration, now time.Time) bool {
	if live == nil || injected(live) {
		return false
	}
	return slices.ContainsFunc(live.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		standing := authorities(w.ClientConfig.CABundle)
		return slices.ContainsFunc(t.valid(now), func(ca string) bool { return !slices.Contains(standing, ca) })
	})
}

// right reports whether live has the CAs that are wanted, or is not to have them from us.
func (t *trust) right(live *configuration, now time.Time) bool {
	if injected(live) || len(live.Webhooks) == 0 {
		return true
	}
	standing, ok := standingCAs(live)
	return ok && slices.Equal(standing, t.wanted(now))
}

// valid reports whether ca is a certificate that has not expired.
func valid(ca string, now time.Time) bool {
	block, _ := pem.Decode([]byte(ca))
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Before(cert.NotAfter)
}

// authorities returns the certificates of a bundle, sorted, each as PEM without comments.
func authorities(bundle []byte) []string {
	var out []string
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// standingCAs returns the CAs of c, and whether they are as one of ours has written them.
func standingCAs(c *configuration) ([]string, bool) {
	if len(c.Webhooks) == 0 {
		return nil, true
	}
	first := c.Webhooks[0].ClientConfig.CABundle
	cas := authorities(first)
	return cas, c.Annotations[caAnnotation] == caFingerprint(cas) &&
		!slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
			return !bytes.Equal(w.ClientConfig.CABundle, first)
		})
}

func caFingerprint(cas []string) string {
	sum := sha256.Sum256([]byte(strings.Join(cas, "")))
	return hex.EncodeToString(sum[:])[:fingerprintLen]
}

// trusting returns c with cas for the API server to trust, unless cert-manager injects them.
func trusting(c *configuration, cas []string) *configuration {
	out := c.DeepCopy()
	if injected(out) {
		return out
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[caAnnotation] = caFingerprint(cas)
	for i := range out.Webhooks {
		out.Webhooks[i].ClientConfig.CABundle = []byte(strings.Join(cas, ""))
	}
	return out
}

// injected reports whether cert-manager's cainjector fills in the caBundle.
func injected(c *configuration) bool { return c.Annotations[injectAnnotation] != "" }
