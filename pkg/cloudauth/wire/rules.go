package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// MaxHeader bounds the header of an answer.
const MaxHeader = 64 << 10

// ErrTooLong is an answer of which more came than anybody needs.
var ErrTooLong = errors.New("the answer is too long")

// ErrProxy is a proxy of which nobody can make sense. It does not repeat it, as there may be a password in it.
var ErrProxy = errors.New("HTTPS_PROXY is no URL of a proxy; correct it: special characters of a password are written as %XX")

// Proxy is the environment's proxy for what is encrypted, and none for anything else: a proxy would
// read it.
func Proxy(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	if !isProxy(cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy"))) {
		return nil, ErrProxy // the library would go around it
	}
	proxy, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, ErrProxy
	}
	return proxy, nil
}

// isProxy reports whether a value is a proxy's, or empty.
func isProxy(text string) bool {
	if text == "" {
		return true
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme)
}

// ErrRefusedByProxy is a proxy that does not let a request through.
var ErrRefusedByProxy = errors.New("the proxy refuses")

// ProxyAnswer is for http.Transport.OnProxyConnectResponse: it makes an error of a refusal that says whose it is.
func ProxyAnswer(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return fmt.Errorf("%w: %s answers %d %s", ErrRefusedByProxy, proxy.Host, answer.StatusCode, http.StatusText(answer.StatusCode))
}

// Lasts reports whether a request that failed with an error would fail again: who cannot be connected to, proves to be
// somebody else, is behind a proxy that refuses, sends elsewhere, or does not answer in time. The user is then better
// served with an error than with a wait.
func Lasts(err error) bool {
	for _, lasting := range []error{ErrTooLong, ErrUnencrypted, ErrProxy, ErrRefusedByProxy, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	var op *net.OpError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var own *cloudauth.Error
	switch {
	case errors.As(err, &own), errors.As(err, &certificate), errors.As(err, &record):
		return true
	case errors.As(err, &op) && slices.Contains([]string{"dial", "proxyconnect", "remote error"}, op.Op):
		return true
	}
	return errors.As(err, &timeout) && timeout.Timeout()
}

// Ahead is how much the clock of who answered is ahead of this machine's, which is now; 0 if it does not tell, or within
// what the second of a Date leaves open. Of an answer that somebody kept (Age), the Date is no clock.
func Ahead(answer http.Header, now time.Time) time.Duration {
	then, err := http.ParseTime(answer.Get("Date"))
	if err != nil || answer.Get("Age") != "" {
		return 0
	}
	if ahead := then.Sub(now); ahead.Abs() > 2*time.Second {
		return ahead
	}
	return 0
}

// Stay follows no redirect: the answer that asks for one is the answer.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ReadAll reads what has at most limit bytes; of more it returns ErrTooLong.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(&bounded{Reader: r, left: limit})
}

// Bounded returns a body of which at most limit bytes can be read; then comes ErrTooLong.
func Bounded(body io.ReadCloser, limit int64) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{&bounded{Reader: body, left: limit}, body}
}

type bounded struct {
	io.Reader
	left int64
}

// Read implements io.Reader. One byte more than the limit is read, to know whether there is one.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLong
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, ErrTooLong
	}
	return n, err
}
