package registration

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// valid reports whether ca is a certificate that has not expired.
func valid(ca string, now time.Time) bool {
	block, _ := pem.Decode([]byte(ca))
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && now.Before(cert.NotAfter)
}

// describe names ca for people.
func describe(ca string) string {
	block, _ := pem.Decode([]byte(ca))
	if block == nil {
		return "something that is no certificate"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "something that is no certificate"
	}
	return fmt.Sprintf("%.100q (serial %x, until %s)", cert.Subject, cert.SerialNumber, cert.NotAfter.UTC().Format(time.RFC3339))
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

// standingCAs returns the CAs of c, and whether they are as one of ours, or cert-manager, has
// written them.
func standingCAs(c *configuration) ([]string, bool) {
	if len(c.Webhooks) == 0 {
		return nil, true
	}
	if injected(c) {
		var all []byte
		for _, w := range c.Webhooks {
			all = append(append(all, w.ClientConfig.CABundle...), '\n')
		}
		return authorities(all), stampOf(c) != stamp{}
	}
	first := c.Webhooks[0].ClientConfig.CABundle
	cas := authorities(first)
	return cas, c.Annotations[caAnnotation] == caFingerprint(cas...) &&
		!slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
			return !bytes.Equal(w.ClientConfig.CABundle, first)
		})
}

func caFingerprint(cas ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(cas, "")))
	return hex.EncodeToString(sum[:])[:fingerprintLen]
}

// leavingCAs returns the fingerprints of the CAs that are announced to leave c.
func leavingCAs(c *configuration) []string { return strings.Fields(c.Annotations[leavingAnnotation]) }

// trusting returns c with cas for the API server to trust, of which those with the
// fingerprints leaving are to leave. cert-manager's cainjector adds to them what it knows.
func trusting(c *configuration, cas, leaving []string) *configuration {
	out := c.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	if !injected(out) {
		out.Annotations[caAnnotation] = caFingerprint(cas...)
		if len(leaving) > 0 {
			out.Annotations[leavingAnnotation] = strings.Join(leaving, " ")
		}
	}
	for i := range out.Webhooks {
		out.Webhooks[i].ClientConfig.CABundle = []byte(strings.Join(cas, ""))
	}
	return out
}

// public reports whether c is for certificates that the API server's own roots hold for.
func public(c *configuration) bool { return c.Annotations[rootsAnnotation] == systemRoots }

// injected reports whether cert-manager's cainjector writes the caBundle as well.
func injected(c *configuration) bool { return c.Annotations[injectAnnotation] != "" }
