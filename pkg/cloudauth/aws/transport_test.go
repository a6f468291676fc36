package aws

import (
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// bodies notes how request bodies are written, and answers nothing.
type bodies struct{ writeThemselves, sent int }

// RoundTrip implements http.RoundTripper.
func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	b.sent++
	if _, ok := r.Body.(io.WriterTo); ok || r.Body == nil {
		b.writeThemselves++
	}
	return nil, io.ErrUnexpectedEOF
}

// A body with WriteTo costs answers of over 4 KB their end where they begin at once, about one of a thousand.
func TestRequestBodiesAreOnlyRead(t *testing.T) {
	newWorld(t)
	s, err := New(t.Context(), Config{}, Options{Program: "test", Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	var seen bodies
	for _, bytes := range []int64{1 << 20, 1 << 27} {
		base := s.ForAnswers(bytes)
		base.HTTPClient, base.RetryMaxAttempts, base.Retryer = &http.Client{Transport: &seen}, 1, nil
		base.Credentials = credentials.NewStaticCredentialsProvider("AKIA", "secret", "")
		_, _ = sts.NewFromConfig(base).GetCallerIdentity(t.Context(), nil)
		_, _ = ecr.NewFromConfig(base).GetAuthorizationToken(t.Context(), nil)
	}
	if seen.sent != 4 || seen.writeThemselves != 0 {
		t.Errorf("%d of %d requests have bodies that write themselves, want none of 4", seen.writeThemselves, seen.sent)
	}
}
