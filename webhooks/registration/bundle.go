package registration

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// authorities returns the certificates of bundle that have not expired, sorted, each as PEM
// without comments.
func authorities(bundle []byte, now time.Time) []string {
	var out []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(cert.NotAfter) {
			out = append(out, string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
func trusted(c *configuration) []string {
	var all []byte
	if c != nil {
		for _, w := range c.Webhooks {
			all = append(append(all, w.ClientConfig.CABundle...), '\n')
		}
	}
	return authorities(all, time.Time{})
}

// trusting gives each webhook of c the CAs.
func trusting(c *configuration, cas []string) {
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig.CABundle = nil
		if bundle := strings.Join(cas, ""); bundle != "" {
			c.Webhooks[i].ClientConfig.CABundle = []byte(bundle)
		}
	}
}

// union returns the CAs of both.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// lacks reports whether requests fail that come to a replica with the CAs own. A configuration
// without any CA is for the API server's own roots, or nobody's of ours yet.
func lacks(live *configuration, own []string) bool {
	return len(trusted(live)) > 0 && isOurs(live) && slices.ContainsFunc(live.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		standing := authorities(w.ClientConfig.CABundle, time.Time{})
		return slices.ContainsFunc(own, func(ca string) bool { return !slices.Contains(standing, ca) })
	})
}

// injected reports whether cert-manager's cainjector writes the CAs.
func injected(c *configuration) bool { return c.Annotations[injectAnnotation] != "" }
