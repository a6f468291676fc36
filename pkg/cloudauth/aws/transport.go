package aws

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// withoutProxy returns a client for services on this machine or next to it: what they give and
// want is not for a proxy, whatever HTTP_PROXY says.
func withoutProxy(c aws.HTTPClient) aws.HTTPClient {
	if b, ok := c.(*awshttp.BuildableClient); ok {
		return b.WithTransportOptions(func(t *http.Transport) { t.Proxy = nil })
	}
	return c
}

// onlyEncrypted refuses to send anything unencrypted to anywhere but this machine and the
// metadata services: tokens are secrets, and AWS_ENDPOINT_URL_… may say http://.
func onlyEncrypted(stack *middleware.Stack) error {
	return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("OnlyEncrypted", func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		if r, ok := in.Request.(*smithyhttp.Request); ok && !mayCarry(r.URL) {
			return middleware.FinalizeOutput{}, middleware.Metadata{}, unencrypted(r.URL)
		}
		return next.HandleFinalize(ctx, in)
	}), middleware.After)
}

// metadataV6 has the instance metadata service and the endpoint of EKS Pod Identity.
const metadataV6 = "fd00:ec2::/32"

func mayCarry(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	host := u.Hostname()
	if u.Scheme != "http" || host == "" {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() || netip.MustParsePrefix(metadataV6).Contains(ip))
}

func unencrypted(u *url.URL) error {
	return &Error{
		Reason: Misconfigured,
		text:   fmt.Sprintf("credentials are not sent unencrypted to %s; use https:// in the endpoint that the environment or the AWS config file sets", u.Host),
	}
}
