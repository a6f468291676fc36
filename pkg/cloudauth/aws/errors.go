package aws

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// misconfigured makes a *cloudauth.Error of all the mistakes, on one line.
func misconfigured(err error) error {
	return &cloudauth.Error{Reason: cloudauth.Misconfigured, Text: strings.ReplaceAll(err.Error(), "\n", "; ")}
}

// Explain makes a *cloudauth.Error of what went wrong in a call to AWS with this Session's credentials.
func (s *Session) Explain(err error) error {
	if err == nil {
		return nil
	}
	var own *cloudauth.Error
	if errors.As(err, &own) {
		return own
	}
	e := &cloudauth.Error{Cause: err}
	var api smithy.APIError
	var profile config.SharedConfigProfileNotExistError
	switch {
	case errors.Is(err, context.Canceled):
		e.Reason, e.Text = cloudauth.Unreachable, calledOf(err)+": "+context.Canceled.Error()
	case errors.As(err, &profile):
		e.Reason, e.Text = cloudauth.Misconfigured, fmt.Sprintf("the AWS config files have no profile %q; correct the profile or AWS_PROFILE", cloudauth.Excerpt(profile.Profile, 80))
	case strings.Contains(err.Error(), "ec2imds") && !isTooLong(err):
		s.explainMetadata(e, err)
	case errors.As(err, &api):
		s.explainAnswer(e, err, api)
	default:
		s.explainNetwork(e, err)
	}
	return e
}

// calledOf names the service and the operation that failed.
func calledOf(err error) string {
	var op *smithy.OperationError
	name := "AWS"
	for errors.As(err, &op) { // the innermost is the one that failed
		name, err = "AWS "+op.Service()+" ("+op.Operation()+")", op.Err
		if op.Operation() == "" { // it is none of AWS' services
			name = op.Service()
		}
	}
	return name
}

// causeFirst is an error with its innermost cause before the rest, so that the rest is what is cut.
func causeFirst(err error) string {
	cause := err
	for next := errors.Unwrap(cause); next != nil; next = errors.Unwrap(cause) {
		cause = next
	}
	if cause.Error() == err.Error() {
		return err.Error()
	}
	return cause.Error() + " (" + err.Error() + ")"
}

// Excerpt makes what others say fit for an error: on one line, cut, without anything that is secret in this Session.
func (s *Session) Excerpt(text string) string { return cloudauth.Excerpt(text, 240, s.secrets()...) }

// secrets are those that are in use.
func (s *Session) secrets() []cloudauth.Secret {
	s.seen.mu.Lock()
	secrets := append([]cloudauth.Secret{}, s.seen.also...)
	s.seen.mu.Unlock()
	if s.cfg.WebIdentity != nil {
		secrets = append(secrets, s.cfg.WebIdentity.Token)
	}
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN"} {
		secrets = append(secrets, cloudauth.NewSecret(os.Getenv(name)))
	}
	return secrets
}

func (s *Session) explainAnswer(e *cloudauth.Error, err error, api smithy.APIError) {
	status, elsewhere := 0, "another address"
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
		if u, err := response.Response.Location(); err == nil {
			elsewhere = u.Scheme + "://" + cloudauth.Excerpt(u.Host, 120)
		}
	}
	// What AWS says of a wrong signature repeats the whole request, tokens included.
	message := api.ErrorMessage()
	if code := api.ErrorCode(); code == "SignatureDoesNotMatch" || code == "InvalidSignatureException" {
		message, _, _ = strings.Cut(message, ".")
	}
	said := s.Excerpt(strings.TrimSpace(api.ErrorCode() + ": " + message))
	where := calledOf(err)
	switch code := api.ErrorCode(); {
	case isThrottle(code) || status == http.StatusTooManyRequests:
		e.Reason, e.Text = cloudauth.Throttled, fmt.Sprintf("%s asks to slow down (%s); it is asked again later", where, said)
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		e.Reason, e.Text = cloudauth.Failed, fmt.Sprintf("%s redirects to %s, which is not followed; is a proxy or another service in between?", where, elsewhere)
	case status >= http.StatusInternalServerError:
		e.Reason, e.Text = cloudauth.Failed, fmt.Sprintf("%s does not work (%d %s); it is asked again later", where, status, said)
	case code == unknownCode && status != 0:
		e.Reason, e.Text = cloudauth.Failed, fmt.Sprintf("%s answers %d %s, and nothing that AWS says; is a proxy or another service in between?", where, status, http.StatusText(status))
	default:
		e.Reason, e.Text = cloudauth.Rejected, fmt.Sprintf("%s refuses %s (%s); %s", where, s.Who(), said, s.hint(code, where))
	}
}

// unknownCode is the SDK's word for an answer that has no code.
const unknownCode = "UnknownError"

func isThrottle(code string) bool {
	return strings.Contains(code, "Throttl") || code == "TooManyRequestsException" || code == "RequestLimitExceeded"
}

// hint says what to do about a refusal, by its code.
func (s *Session) hint(code, where string) string {
	switch {
	case strings.Contains(where, "AssumeRoleWithWebIdentity"):
		switch code {
		case "AccessDenied":
			return "let the role's trust policy allow sts:AssumeRoleWithWebIdentity for the token's issuer, audience and subject"
		case "InvalidIdentityToken", "IDPRejectedClaim", "IncorrectTrustPolicyException":
			return "in IAM, create an OIDC provider for the cluster's issuer that has the token's audience"
		case "ExpiredTokenException":
			return "the token has expired; check the clock of the node"
		}
	case strings.Contains(where, "AssumeRole"):
		return "allow it sts:AssumeRole on the role, and let the role's trust policy allow this caller (external id and source account included)"
	}
	switch code {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation":
		return "allow the action in its IAM policy"
	case "ExpiredToken", "ExpiredTokenException", "RequestExpired":
		return "they have expired; renew them, and check the clock of the node"
	case "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId":
		return "the access key does not exist in this partition or region; replace it"
	case "SignatureDoesNotMatch", "InvalidSignatureException":
		return "the secret access key is wrong, or the clock of the node"
	case "AuthFailure": // EC2's one word for all of these
		return "the access key does not exist or is turned off, its secret is wrong, the region is not enabled for the account, or the clock of the node is wrong"
	}
	return "see the AWS documentation of the code"
}

// explainMetadata is about the instance metadata service, which is the last of the sources.
func (s *Session) explainMetadata(e *cloudauth.Error, err error) {
	e.Reason = cloudauth.NoCredentials
	detail := "it does not answer"
	if _, after, ok := strings.Cut(err.Error(), "StatusCode: "); ok && len(after) >= 3 { // one of the SDK's errors does not unwrap
		detail = "it answers " + after[:3]
	}
	if strings.Contains(err.Error(), "disabled") {
		detail = "it is turned off (AWS_EC2_METADATA_DISABLED)"
	}
	e.Text = fmt.Sprintf("the instance metadata service (IMDSv2) gives no role: %s; no AWS credentials are in the environment, the AWS config files and a container endpoint either; "+
		"attach an instance profile (which a pod that is not on the node's network gets with a hop limit of 2 only), or configure one of the others", detail)
}

// isTooLong reports whether an answer was too long. Some of the SDK's errors do not unwrap.
func isTooLong(err error) bool { return strings.Contains(err.Error(), wire.ErrTooLong.Error()) }

// explainUnknown is about a certificate of nobody that is trusted. The SDK has a variable of its own for that.
func (s *Session) explainUnknown(where string) string {
	if ownCAs(s.base.HTTPClient) {
		return where + " has a certificate that AWS_CA_BUNDLE (or ca_bundle of the AWS config files) does not vouch for, which takes the place of the system's CAs; add the CA of the proxy or endpoint in between to it"
	}
	return where + " has a certificate that the system's CAs do not vouch for; add the CA of the proxy or endpoint in between to the system's, or name a file of all CAs with AWS_CA_BUNDLE"
}

func (s *Session) explainNetwork(e *cloudauth.Error, err error) {
	where := calledOf(err)
	var u *url.Error
	if errors.As(err, &u) {
		if parsed, parseErr := url.Parse(u.URL); parseErr == nil && parsed.Host != "" {
			where += " at " + parsed.Host
		}
	}
	var file *os.PathError
	var unreadable *smithy.DeserializationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		e.Reason, e.Text = cloudauth.Unreachable, s.explainUnknown(where)
	case isTooLong(err):
		e.Reason, e.Text = cloudauth.Failed, wire.Explain(where, wire.ErrTooLong, "")
	case errors.As(err, &unreadable):
		e.Reason, e.Text = cloudauth.Failed, where+" answers with something else than the service does; is a proxy or another service in between?"
	case u != nil, errors.Is(err, context.DeadlineExceeded):
		e.Reason, e.Text = cloudauth.Unreachable, wire.Explain(where, err, "check the network, VPC endpoints and proxy", s.secrets()...)
	case errors.As(err, &file):
		e.Reason, e.Text = cloudauth.Misconfigured, fmt.Sprintf("AWS credentials: %s; check the file and who may read it", s.Excerpt(file.Error()))
	default:
		e.Reason, e.Text = cloudauth.Failed, fmt.Sprintf("%s: %s; check the AWS configuration of the environment and the config files", where, s.Excerpt(causeFirst(err)))
	}
}
