package aws

import (
	"errors"
	"net"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// newRetryer decides on what is sent again: as the SDK does, three times, but for what another attempt does not
// change.
func (s *Session) newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxBackoff = s.options.maxBackoff
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(lasts)}, o.Retryables...)
	})
}

// lasts answers No for what another attempt does not change, by the rules of pkg/cloudauth/wire. That nobody answers at
// a port, or a name server not now, is often over in a moment while a node starts: the SDK decides on that.
func lasts(err error) aws.Ternary {
	var op *net.OpError
	var name *net.DNSError
	moment := errors.As(err, &op) && op.Op == "dial" && // and not a proxy's
		(errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &name) && name.IsTemporary)
	if wire.Lasts(err) && !moment {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}
