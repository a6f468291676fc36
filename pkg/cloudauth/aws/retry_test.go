package aws

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// The SDK would send everything again that failed on its way.
func TestRetryer(t *testing.T) {
	r := (&Session{options: Options{maxBackoff: time.Second}}).newRetryer()
	if n := r.MaxAttempts(); n != 3 {
		t.Errorf("%d attempts", n)
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, false}, {wire.ErrRefusedByProxy, false}, {wire.ErrProxy, false}, {io.EOF, true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true}, {&net.OpError{Op: "proxyconnect", Err: syscall.ECONNREFUSED}, false},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, true}, {&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, false}} {
		if got := r.IsErrorRetryable(&smithyhttp.RequestSendError{Err: &url.Error{Op: "Post", URL: "https://x", Err: tt.err}}); got != tt.want {
			t.Errorf("%v: sent again %t, want %t", tt.err, got, tt.want)
		}
	}
}
