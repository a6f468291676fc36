package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

func TestBounds(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 1000} {
		text := strings.Repeat("x", n)
		for name, r := range map[string]func() io.Reader{
			"at once":      func() io.Reader { return strings.NewReader(text) },
			"byte by byte": func() io.Reader { return iotest.OneByteReader(strings.NewReader(text)) },
			"with its end": func() io.Reader { return iotest.DataErrReader(strings.NewReader(text)) },
		} {
			got, err := ReadAll(r(), 10)
			if n <= 10 && (err != nil || string(got) != text) || n > 10 && (!errors.Is(err, ErrTooLong) || string(got) != text[:10]) {
				t.Errorf("%d bytes %s: %q, %v", n, name, got, err)
			}
		}
	}
}

// The library takes what it cannot read for no proxy at all, and goes around it.
func TestMalformedProxy(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://sts.example/", nil)
	for value, good := range map[string]bool{
		"": true, "http://proxy.example:3128": true, "proxy.example:3128": true, "http://user:p%23ss@proxy.example": true,
		"http://user:s3cret%zz@proxy.example:3128": false, "http://proxy.example:port": false, "http://[::1": false, "ftp://proxy.example": false, "http://": false, "socks5://proxy.example:1080": true, "[::1]:3128": true,
	} {
		t.Setenv("HTTPS_PROXY", value)
		t.Setenv("https_proxy", "")
		if _, err := Proxy(r); (err == nil) != good || err != nil && (!errors.Is(err, ErrProxy) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.example:3128")
	t.Setenv("HTTP_PROXY", "http://proxy.example:3128")
	for _, address := range []string{"http://169.254.169.254/", "http://[fd20:ce::254]/", "http://metadata.google.internal/"} {
		if proxy, err := Proxy(httptest.NewRequest(http.MethodGet, address, nil)); proxy != nil || err != nil {
			t.Errorf("%s: through %v, %v", address, proxy, err)
		}
	}
}

// What another attempt does not change is told from what may pass.
func TestLasts(t *testing.T) {
	refused := ProxyAnswer(t.Context(), &url.URL{Host: "proxy.example:3128"}, nil, &http.Response{StatusCode: http.StatusProxyAuthRequired})
	if refused == nil || refused.Error() != "the proxy refuses: proxy.example:3128 answers 407 Proxy Authentication Required" {
		t.Errorf("a proxy that refuses: %v", refused)
	}
	if err := ProxyAnswer(t.Context(), nil, nil, &http.Response{StatusCode: http.StatusOK}); err != nil {
		t.Errorf("a proxy that does not: %v", err)
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{refused, true}, {ErrTooLong, true}, {ErrProxy, true}, {ErrUnencrypted, true}, {context.Canceled, true}, {context.DeadlineExceeded, true},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true}, {&net.OpError{Op: "proxyconnect", Err: errors.New("refused")}, true},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, true}, {&tls.CertificateVerificationError{Err: errors.New("x")}, true},
		{tls.RecordHeaderError{Msg: "no TLS"}, true}, {cloudauth.NewError(cloudauth.Failed, "redirects"), true}, {&net.DNSError{IsTimeout: true}, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, false}, {io.ErrUnexpectedEOF, false}, {&net.DNSError{}, false},
	} {
		if got := Lasts(&url.Error{Op: "Post", URL: "https://x", Err: tt.err}); got != tt.want {
			t.Errorf("%T %v: %t, want %t", tt.err, tt.err, got, tt.want)
		}
	}
}

// The clock of who answers is what its Date says, but for the second that it leaves open and for answers that were kept.
func TestAhead(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(http.TimeFormat) }
	for _, tt := range []struct {
		date, age string
		want      time.Duration
	}{{at(time.Hour), "", time.Hour}, {at(-time.Hour), "", -time.Hour}, {at(2 * time.Second), "", 0}, {at(3 * time.Second), "", 3 * time.Second}, {at(time.Hour), "5", 0}, {"", "", 0}, {"soon", "", 0}} {
		header := http.Header{"Date": {tt.date}}
		if tt.age != "" {
			header.Set("Age", tt.age)
		}
		if got := Ahead(header, now); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
