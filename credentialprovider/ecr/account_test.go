package ecr

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// A service account is its own role or the configured one, in that order; what is no role is nobody, and never the node.
func TestRoleOfAServiceAccount(t *testing.T) {
	const own, configured, environment = "arn:aws:iam::123456789012:role/own", "arn:aws:iam::123456789012:role/configured", "arn:aws:iam::123456789012:role/environment"
	for name, tt := range map[string]struct {
		annotations map[string]string
		configured  string
		environment string
		want, err   string
	}{
		"its own":                    {annotations: map[string]string{RoleAnnotation: own}, configured: configured, environment: environment, want: own},
		"its own, by the peer":       {annotations: map[string]string{PeerRoleAnnotation: own}, configured: configured, want: own},
		"configured":                 {configured: configured, environment: environment, want: configured},
		"environment":                {environment: environment, want: environment},
		"none":                       {err: "names no IAM role for pulling"},
		"no role":                    {annotations: map[string]string{RoleAnnotation: "arn:aws:iam::123456789012:user/a"}, configured: configured, err: "the annotation of service account team/app"},
		"no role in the environment": {environment: "admin", err: roleVariable + ": "},
		"two":                        {annotations: map[string]string{RoleAnnotation: own, PeerRoleAnnotation: configured}, err: "with different values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(roleVariable, tt.environment)
			p, err := New(Config{Identity: credentialprovider.ServiceAccountIdentity, RoleARN: tt.configured}, credentialprovider.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.webIdentity(&credentialprovider.ServiceAccount{Token: cloudauth.NewSecret("s3cret"), Subject: "system:serviceaccount:team:app", Annotations: tt.annotations})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %+v, %v, want %q", got, err, tt.err)
				}
				return
			}
			if err != nil || got.RoleARN != tt.want || got.SessionName != "team.app" || got.Token.Reveal() != "s3cret" {
				t.Errorf("got %+v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// dated answers with a token that ends in twelve hours, by a clock that is ahead.
type dated time.Duration

func (d dated) Do(r *http.Request) (*http.Response, error) {
	header := http.Header{"Date": {time.Now().Add(time.Duration(d)).UTC().Format(http.TimeFormat)}}
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(strings.NewReader(`{"authorizationData":[{"authorizationToken":"` + tokenOfAWS + `","expiresAt":2000000000}]}`)), Request: r}, nil
}

// When a token ends is by the clock of AWS; the node's may be wrong.
func TestTokenEndsByTheClockOfAWS(t *testing.T) {
	r, _ := parseHost("123456789012.dkr.ecr.us-east-1.amazonaws.com")
	for _, ahead := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		got, err := privateToken(t.Context(), aws.Config{HTTPClient: dated(ahead), Credentials: credentials.NewStaticCredentialsProvider("AKIA", "s", "")}, r)
		if err != nil {
			t.Fatal(err)
		}
		if off := got.ahead - ahead; off.Abs() > time.Minute || !got.expires.Equal(time.Unix(2_000_000_000, 0).Add(-got.ahead)) {
			t.Errorf("a clock that is %s ahead: %s, the token ends at %s", ahead, got.ahead, got.expires)
		}
	}
}
