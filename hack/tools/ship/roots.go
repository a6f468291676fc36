package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsPEM returns the CA certificates that Mozilla trusts, as the Go project publishes them. Those
// that are trusted under a condition only, which PEM cannot say, are left out.
func rootsPEM() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if c, err := x509.ParseCertificate(root.Certificate); err == nil {
			fmt.Fprintf(&out, "# %s\n", c.Subject)
		}
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
	}
	return out.Bytes()
}
