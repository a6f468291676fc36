package aws

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// newHTTPClient returns the SDK's client, which the SDK insists on, but one that follows no redirect: the
// SDK's follows some, with the token in the request's body.
func newHTTPClient(o Options) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTimeout(o.RequestTimeout).WithTransportOptions(func(t *http.Transport) {
		t.Proxy = staying(wire.Proxy)
		t.MaxResponseHeaderBytes = wire.MaxHeader
		t.OnProxyConnectResponse = wire.ProxyAnswer
	})
}

// trusting returns a client that trusts the CAs of a file in place of the system's, as AWS_CA_BUNDLE asks for; "" is none.
func trusting(c *awshttp.BuildableClient, bundle string) (aws.HTTPClient, error) {
	if bundle == "" {
		return c, nil
	}
	data, err := cloudauth.ReadFile(bundle)
	if err != nil {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %w; correct the path or who may read it", err)
	}
	cas := x509.NewCertPool()
	if !cas.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %s has no certificates (PEM) in it", bundle)
	}
	return c.WithTransportOptions(func(t *http.Transport) { t.TLSClientConfig.RootCAs = cas }), nil
}

// ownCAs reports whether a client trusts others than the system's CAs.
func ownCAs(c aws.HTTPClient) bool {
	b, ok := c.(*awshttp.BuildableClient)
	if !ok {
		return false
	}
	t := b.GetTransport().TLSClientConfig
	return t != nil && t.RootCAs != nil
}

// staying makes of what is asked for the way of every request, those of redirects included, what
// refuses the latter: nothing else of the SDK's client can be told so.
func staying(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if r.Response != nil {
			return nil, &cloudauth.Error{Reason: cloudauth.Failed, Text: fmt.Sprintf("AWS at %s redirects to %s://%s, which is not followed; is a proxy or another service in between?",
				r.Response.Request.URL.Host, r.URL.Scheme, cloudauth.Excerpt(r.URL.Host, 120))}
		}
		return proxy(r)
	}
}

// withoutProxy returns a client for services on this machine or next to it: what they give and
// want is not for a proxy, whatever the environment says.
func withoutProxy(c aws.HTTPClient) aws.HTTPClient {
	if b, ok := c.(*awshttp.BuildableClient); ok {
		return b.WithTransportOptions(func(t *http.Transport) {
			t.Proxy = staying(func(*http.Request) (*url.URL, error) { return nil, nil })
		})
	}
	return c
}

// bounded bounds what is read of an answer that holds a token, or little else.
func bounded(stack *middleware.Stack) error { return boundedBy(wire.MaxAnswer)(stack) }

// boundedBy bounds what is read of an answer, in bytes.
func boundedBy(most int64) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error { return addBound(stack, most) }
}

func addBound(stack *middleware.Stack, most int64) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Bounded", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if r, ok := out.RawResponse.(*smithyhttp.Response); ok && r != nil && r.Response != nil && r.Body != nil {
			r.Body = wire.Bounded(r.Body, most)
		}
		return out, metadata, err
	}), middleware.After)
}

// named makes the errors of a client that says nothing of whom it asks those of a service.
func named(service string) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("Named", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleInitialize(ctx, in)
			if err != nil {
				err = &smithy.OperationError{ServiceID: service, Err: err}
			}
			return out, metadata, err
		}), middleware.Before)
	}
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

// plainBody keeps net/http from writing a request's body by the body's own WriteTo. The SDK closes the body as soon as an answer
// begins (smithy-go 1.28.8); where the answer is that fast, net/http still asks whether the body has more, WriteTo says io.EOF as
// an error, and the connection is closed in the middle of the answer.
func plainBody(stack *middleware.Stack) error {
	return stack.Build.Add(middleware.BuildMiddlewareFunc("PlainBody", func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (middleware.BuildOutput, middleware.Metadata, error) {
		if r, ok := in.Request.(*smithyhttp.Request); ok {
			if body, ok := r.GetStream().(io.ReadSeeker); ok {
				plain, err := r.SetStream(struct{ io.ReadSeeker }{body})
				if err != nil {
					return middleware.BuildOutput{}, middleware.Metadata{}, err
				}
				in.Request = plain
			}
		}
		return next.HandleBuild(ctx, in)
	}), middleware.Before)
}

// metadataV6 has the instance metadata service and the endpoint of EKS Pod Identity.
const metadataV6 = "fd00:ec2::/32"

func mayCarry(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	return u.Scheme == "http" && wire.IsNear(u.Hostname(), netip.MustParsePrefix(metadataV6))
}

func unencrypted(u *url.URL) error {
	return &cloudauth.Error{
		Reason: cloudauth.Misconfigured,
		Text:   fmt.Sprintf("credentials are not sent unencrypted to %s; use https:// in the endpoint that the environment or the AWS config file sets", u.Host),
	}
}
