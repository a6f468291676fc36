package aws_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws/ec2"
)

const (
	account = "111122223333"
	region  = "eu-central-1"
)

// world is a simulator, and a client of one of its users.
type world struct {
	*aws.Sim
	t      *testing.T
	region *sim.Region
	ec2    *ec2.Client
	config sdk.Config
}

func newWorld(t *testing.T, opts aws.Options, actions ...string) *world {
	t.Helper()
	s, err := aws.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if len(actions) == 0 {
		actions = []string{"ec2:*", "elasticloadbalancing:*"}
	}
	w := &world{Sim: s, t: t, region: s.EC2(account, region)}
	w.config = w.configOf(s.AddUser(aws.Principal{Account: account, Name: "ccm", Actions: actions}))
	w.ec2 = ec2.NewFromConfig(w.config)
	return w
}

// configOf is a client's that finds the simulator by AWS' names, and tries everything once.
func (w *world) configOf(k aws.Keys) sdk.Config {
	w.t.Helper()
	transport := &http.Transport{}
	if err := w.Intercept(transport); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return sdk.Config{
		Region:      region,
		Credentials: credentials.NewStaticCredentialsProvider(k.AccessKeyID, k.SecretAccessKey, k.SessionToken),
		HTTPClient:  &http.Client{Transport: patient{transport}},
		Retryer:     func() sdk.Retryer { return sdk.NopRetryer{} },
	}
}

// patient sends a request's body as nothing but a reader. smithy-go 1.28.8 closes the body once an answer has begun, and its WriteTo
// is at its end then: to net/http that is a failed write if it comes before net/http has found that nothing more is to be written,
// and it closes the connection under the answer. Nobody but a simulator answers so soon.
type patient struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r = r.WithContext(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.RoundTripper.RoundTrip(r)
}

// must returns what a call returned that may not fail.
func must[T any](out T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// wantError fails unless a call has failed with status 400, a code and, if it is given, a message.
func wantError(t *testing.T, err error, code, message string) {
	t.Helper()
	wantStatus(t, err, http.StatusBadRequest, code, message)
}

// wantStatus is wantError with another status.
func wantStatus(t *testing.T, err error, status int, code, message string) {
	t.Helper()
	var api smithy.APIError
	var answer *awshttp.ResponseError
	if !errors.As(err, &api) || !errors.As(err, &answer) {
		t.Fatalf("got %v, want %d %s", err, status, code)
	}
	if api.ErrorCode() != code || answer.HTTPStatusCode() != status || message != "" && api.ErrorMessage() != message {
		t.Fatalf("got %d %s: %s, want %d %s: %s", answer.HTTPStatusCode(), api.ErrorCode(), api.ErrorMessage(), status, code, message)
	}
	if answer.ServiceRequestID() == "" {
		t.Errorf("%s has no request ID", code)
	}
}
