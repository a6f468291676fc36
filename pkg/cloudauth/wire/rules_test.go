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

func TestProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.example:3128")
	t.Setenv("HTTP_PROXY", "http://proxy.example:3128")
	for _, address := range []string{"http://169.254.169.254/", "http://[fd20:ce::254]/", "http://metadata.google.internal/"} {
		if proxy, err := Proxy(httptest.NewRequest(http.MethodGet, address, nil)); proxy != nil || err != nil {
			t.Errorf("%s: through %v, %v", address, proxy, err)
		}
	}
}
