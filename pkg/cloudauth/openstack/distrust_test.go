package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A request whose certificate was not trusted is sent again by the new ones, with its whole body or not at all.
func TestRequestIsSentAgainWithItsWholeBodyOrNotAtAll(t *testing.T) {
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, r.Method+" "+string(body))
	}))
	defer server.Close()
	trusting := func(roots *x509.CertPool) *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, DisableKeepAlives: true}
	}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, tt := range map[string]struct {
		body  io.Reader
		again bool // it can be read again
		newer bool // there is another certificate
		want  string
	}{
		"without a body":          {newer: true, want: "POST "},
		"with one":                {body: strings.NewReader("all of it"), again: true, newer: true, want: "POST all of it"},
		"with one for once":       {body: strings.NewReader("all of it"), newer: true},
		"without new credentials": {body: strings.NewReader("all of it"), again: true},
	} {
		got = nil
		tr := &transport{newer: func(context.Context, *http.Transport) *http.Transport {
			if tt.newer {
				return trusting(roots)
			}
			return nil
		}}
		tr.base.Store(trusting(x509.NewCertPool()))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, tt.body)
		if err != nil {
			t.Fatal(err)
		}
		if !tt.again {
			req.GetBody = nil
		}
		resp, err := tr.send(req)
		if err == nil {
			_ = resp.Body.Close() // there is nothing in it
		}
		if all := strings.Join(got, ", "); all != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: sent %q, %v, want %q", name, all, err, tt.want)
		}
	}
}
