package aws

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// answering answers every request with a body.
type answering struct {
	status int
	body   []byte
}

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r}, nil
}

// FuzzSTS checks that no answer of STS makes the SDK or Explain panic, and that an error is one line without the token.
func FuzzSTS(f *testing.F) {
	f.Add([]byte(`<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2026-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`))
	f.Add([]byte(`<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>the token eyJ.s3cret.x is bad</Message></Error></ErrorResponse>`))
	f.Add([]byte(`<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><Expiration>x`))
	f.Add([]byte(`{"__type":"x#ThrottlingException:","message":"s"}`))
	const token = "eyJ.s3cret.x"
	s := &Session{
		cfg:     Config{Region: "eu-central-1", WebIdentity: &WebIdentity{Token: cloudauth.NewSecret(token), RoleARN: "arn:aws:iam::111122223333:role/a"}},
		options: Options{RequestTimeout: time.Second, maxBackoff: time.Nanosecond}, seen: &seen{},
	}
	loaded, err := s.loadWebIdentity(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
			base := loaded.Copy()
			base.HTTPClient = &http.Client{Transport: answering{status, body}}
			c, err := s.webIdentity(base, *s.cfg.WebIdentity).Retrieve(t.Context())
			if err == nil {
				continue // whether they are any good is for AWS
			}
			if c.HasKeys() {
				t.Errorf("%q gives keys and %v", body, err)
			}
			if text := s.Explain(err).Error(); strings.Contains(text, token) || strings.ContainsAny(text, "\r\n") || len(text) > 700 {
				t.Errorf("%q: %s", body, text)
			}
		}
	})
}

// FuzzECR checks the same of the answers of ECR.
func FuzzECR(f *testing.F) {
	f.Add([]byte(`{"__type":"com.amazon#AccessDeniedException","message":"User: x is not authorized"}`))
	f.Add([]byte(`{"authorizationData":[{"authorizationToken":"QVdTOg==","expiresAt":1e308}]}`))
	f.Add([]byte(`[]`))
	s := &Session{seen: &seen{}}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, status := range []int{http.StatusOK, http.StatusForbidden} {
			client := ecr.New(ecr.Options{
				Region: "eu-central-1", HTTPClient: &http.Client{Transport: answering{status, body}}, RetryMaxAttempts: 1,
				Credentials: credentials.NewStaticCredentialsProvider("AKIA", "s3cret", "t0ken"),
			})
			_, err := client.GetAuthorizationToken(t.Context(), &ecr.GetAuthorizationTokenInput{})
			if err == nil {
				continue
			}
			var own *cloudauth.Error
			if text := s.Explain(err); !errors.As(text, &own) || strings.ContainsAny(own.Text, "\r\n") || len(own.Text) > 600 {
				t.Errorf("%q: %v", body, text)
			}
		}
	})
}
