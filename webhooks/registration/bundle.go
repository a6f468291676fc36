package registration

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// authorities returns the certificates of bundle that have not expired, each as PEM without comments.
func authorities(bundle []byte, now time.Time) sets.Set[string] {
	out := sets.New[string]()
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(cert.NotAfter) {
			out.Insert(string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
		}
	}
	return out
}

// describe names ca, one of authorities, for people.
func describe(ca string) string {
	block, _ := pem.Decode([]byte(ca))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%.100q (serial %x, until %s)", cert.Subject, cert.SerialNumber, cert.NotAfter.UTC().Format(time.RFC3339))
}

// trusted returns the CAs of c, nil for none, also those that have expired: by a clock that runs
// ahead, they have all, and there would be a fight about them.
func trusted(c *configuration) sets.Set[string] {
	out := sets.New[string]()
	if c != nil {
		for _, w := range c.Webhooks {
			out = out.Union(authorities(w.ClientConfig.CABundle, time.Time{}))
		}
	}
	return out
}

// trusting gives each webhook of c the CAs, in an order that is always the same.
func trusting(c *configuration, cas sets.Set[string]) {
	var bundle []byte // nil for none
	for _, ca := range sets.List(cas) {
		bundle = append(bundle, ca...)
	}
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig.CABundle = bundle
	}
}

// lacks reports whether requests fail that come to a replica with the CAs own. A configuration
// without any CA is for the API server's own roots, or nobody's of ours yet.
func lacks(live *configuration, own sets.Set[string]) bool {
	return len(trusted(live)) > 0 && isOurs(live) && slices.ContainsFunc(live.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		return !authorities(w.ClientConfig.CABundle, time.Time{}).IsSuperset(own)
	})
}

// injected reports whether cert-manager's cainjector writes the CAs.
func injected(c *configuration) bool { return c.Annotations[injectAnnotation] != "" }
