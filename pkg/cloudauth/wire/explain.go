package wire

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Explain says in one line why there is no answer, with the next step. where is who should have answered, and
// network the next step where nobody does.
func Explain(where string, err error, network string, secrets ...cloudauth.Secret) string {
	detail := err
	var u *url.Error
	if errors.As(err, &u) {
		detail = u.Err // its URL may have secrets in it
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return where + ": " + context.Canceled.Error()
	case errors.Is(err, ErrUnencrypted):
		return cloudauth.Excerpt(err.Error(), 200, secrets...) + "; use https://"
	case errors.Is(err, ErrTooLong):
		return fmt.Sprintf("%s answers with more than %d KiB; is a proxy or another service in between?", where, MaxAnswer>>10)
	case errors.As(err, &unknown):
		return where + " has a certificate that the system's CAs do not vouch for; add the CA of the proxy in between to the system's, or set SSL_CERT_FILE"
	case errors.As(err, &host):
		return fmt.Sprintf("%s has a certificate for another name (%s); check DNS, private endpoints and the proxy", where, cloudauth.Excerpt(host.Error(), 200, secrets...))
	case errors.As(err, &invalid):
		return fmt.Sprintf("%s has a certificate that is not valid (%s); check the clock of the machine, and the certificate", where, cloudauth.Excerpt(invalid.Error(), 200, secrets...))
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return where + " does not answer in time; " + network
	}
	return fmt.Sprintf("%s cannot be reached (%s); %s", where, cloudauth.Excerpt(detail.Error(), 200, secrets...), network)
}
