package aws

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// Call is one operation of a service that speaks JSON 1.1, for programs that need a single one:
// the SDK's client of the service would cost them more at every start than the operation itself.
type Call struct {
	// Service is the service's name for users ("ECR") and in AWS_ENDPOINT_URL_<Service>, and
	// Signing its name in signatures.
	Service, Signing string
	// Operation is the operation's name, and Target the prefix of it in X-Amz-Target.
	Operation, Target string
	// Region is where it is, and Host the endpoint's name there.
	Region, Host string
	// In is encoded as the request, and the answer decoded into Out.
	In, Out any
}

// Do makes a call, signed with the Session's credentials. Its errors are *cloudauth.Error.
func (s *Session) Do(ctx context.Context, c Call) error {
	if err := s.do(ctx, c); err != nil {
		return s.Explain(&smithy.OperationError{ServiceID: c.Service, OperationName: c.Operation, Err: err})
	}
	return nil
}

func (s *Session) do(ctx context.Context, c Call) error {
	endpoint, err := s.endpoint(ctx, c)
	if err != nil {
		return err
	}
	body, err := json.Marshal(c.In)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	retryer := s.base.Retryer()
	var skew time.Duration
	for attempt := 1; ; attempt++ {
		err := s.attempt(ctx, c, endpoint, body, skew)
		if d := s.skewOf(err); d != 0 && skew == 0 && ctx.Err() == nil {
			skew = d // once, at once
			continue
		}
		if err == nil || attempt >= retryer.MaxAttempts() || !retryer.IsErrorRetryable(err) || ctx.Err() != nil {
			return err
		}
		delay, delayErr := retryer.RetryDelay(attempt, err)
		if delayErr != nil {
			return err
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// endpoint is the service's in the environment or the AWS config files, or else at Host.
func (s *Session) endpoint(ctx context.Context, c Call) (*url.URL, error) {
	text := "https://" + c.Host
	if s.base.BaseEndpoint != nil {
		text = *s.base.BaseEndpoint
	}
	for _, source := range s.base.ConfigSources {
		g, ok := source.(interface {
			GetServiceBaseEndpoint(ctx context.Context, sdkID string) (string, bool, error)
		})
		if !ok {
			continue
		}
		if value, found, err := g.GetServiceBaseEndpoint(ctx, c.Service); err == nil && found && value != "" {
			text = value
			break
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, &cloudauth.Error{Reason: cloudauth.Misconfigured, Text: fmt.Sprintf("the endpoint %q for AWS %s in the environment or the AWS config files is no URL", cloudauth.Excerpt(text, 120), c.Service)}
	}
	if !mayCarry(u) {
		return nil, unencrypted(u)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// maxSkew is by how much the clocks may differ without a signature being refused for it.
const maxSkew = 4 * time.Minute

// skewOf is by how much AWS' clock is ahead of this machine's, if that may be why it refuses a signature;
// else 0. As with the SDK's own clients, a request is then signed as of AWS' time.
func (s *Session) skewOf(err error) time.Duration {
	var refused *smithyhttp.ResponseError
	if !errors.As(err, &refused) || refused.HTTPStatusCode() < http.StatusBadRequest || refused.HTTPStatusCode() >= http.StatusInternalServerError {
		return 0
	}
	then, err := http.ParseTime(refused.Response.Header.Get("Date"))
	if err != nil || then.Sub(s.now()).Abs() < maxSkew {
		return 0
	}
	return then.Sub(s.now())
}

func (s *Session) now() time.Time {
	if s.options.now != nil {
		return s.options.now()
	}
	return time.Now()
}

// attempt sends the request once.
func (s *Session) attempt(ctx context.Context, c Call, endpoint *url.URL, body []byte, skew time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", c.Target+"."+c.Operation)
	req.Header.Set("User-Agent", s.options.Program+"/"+s.options.Version)
	credentials, err := s.base.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("get credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), c.Signing, c.Region, s.now().Add(skew)); err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	response, err := s.base.HTTPClient.Do(req)
	if err != nil {
		return &smithyhttp.RequestSendError{Err: err}
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := wire.ReadAll(response.Body, wire.MaxAnswer)
	if err != nil {
		return &smithyhttp.RequestSendError{Err: err}
	}
	if response.StatusCode != http.StatusOK {
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: response}, Err: apiError(response, answer)}
	}
	if err := json.Unmarshal(answer, c.Out); err != nil {
		return &cloudauth.Error{Reason: cloudauth.Failed, Text: fmt.Sprintf("AWS %s (%s) at %s does not answer with JSON; is a proxy or another service in between?", c.Service, c.Operation, endpoint.Host)}
	}
	return nil
}

// apiError reads an error of the JSON protocol.
func apiError(response *http.Response, body []byte) error {
	var e struct {
		Type    string `json:"__type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &e) // what is no JSON has no code
	code, _, _ := strings.Cut(cmp.Or(response.Header.Get("X-Amzn-Errortype"), e.Type, e.Code, http.StatusText(response.StatusCode)), ":")
	return &smithy.GenericAPIError{Code: code[strings.LastIndexByte(code, '#')+1:], Message: e.Message}
}

// FIPS reports whether Config, the environment or the AWS config files ask for FIPS endpoints.
func (s *Session) FIPS(ctx context.Context) bool {
	for _, source := range s.base.ConfigSources {
		g, ok := source.(interface {
			GetUseFIPSEndpoint(ctx context.Context) (aws.FIPSEndpointState, bool, error)
		})
		if !ok {
			continue
		}
		if state, found, err := g.GetUseFIPSEndpoint(ctx); err == nil && found {
			return state == aws.FIPSEndpointStateEnabled
		}
	}
	return false
}

// DualStack reports whether Config, the environment or the AWS config files ask for dual-stack endpoints.
func (s *Session) DualStack(ctx context.Context) bool {
	for _, source := range s.base.ConfigSources {
		g, ok := source.(interface {
			GetUseDualStackEndpoint(ctx context.Context) (aws.DualStackEndpointState, bool, error)
		})
		if !ok {
			continue
		}
		if state, found, err := g.GetUseDualStackEndpoint(ctx); err == nil && found {
			return state == aws.DualStackEndpointStateEnabled
		}
	}
	return false
}

// newRetryer decides on what is tried again: three attempts, as with the SDK.
func (s *Session) newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = s.options.maxBackoff })
}
