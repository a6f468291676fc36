// Package certstest makes certificates for tests.
package certstest

import (
	"testing"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
)

// Hosts are whom the certificates are for: the default Service, and loopback.
func Hosts() []string {
	return append(webhooks.DefaultService().DNSNames(), "localhost", "127.0.0.1", "::1")
}

// Source returns a Source of files in dir, which are generated for Hosts.
func Source(t testing.TB, dir string) certs.Source {
	t.Helper()
	s, err := certs.New(certs.Options{Dir: dir, Hosts: Hosts()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
