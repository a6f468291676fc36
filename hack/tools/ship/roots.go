package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"runtime/debug"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsPath is the module with Mozilla's list.
const rootsPath = "golang.org/x/crypto/x509roots/fallback"

// rootsModule is the list as a part of an image.
func rootsModule() *module {
	m := &module{path: rootsPath, licenses: []string{"MPL-2.0"}}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == rootsPath {
				m.version, m.sum = d.Version, d.Sum
			}
		}
	}
	return m
}

// rootsPEM returns the CA certificates that Mozilla trusts, as the Go project publishes them. Those
// that are trusted under a condition only, which PEM cannot say, are left out.
func rootsPEM() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# The CA certificates of Mozilla's list, which is under MPL-2.0, as %s %s has them.\n", rootsPath, rootsModule().version)
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
