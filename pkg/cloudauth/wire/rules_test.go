package wire

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
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
