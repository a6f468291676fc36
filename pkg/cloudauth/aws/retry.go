package aws

import (
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

// lasts answers No for what another attempt does not change, by the rules of pkg/cloudauth/wire.
func lasts(err error) aws.Ternary {
	if wire.Lasts(err) {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}
