package aws

import (
	"errors"
	"strings"
	"testing"
)

// A role is asked for in its own partition: where requests go, or else in the region by default, if that is in it.
func TestRegionOfARole(t *testing.T) {
	const role, chinese = "arn:aws:iam::111122223333:role/a", "arn:aws-cn:iam::111122223333:role/a"
	for _, tt := range []struct{ region, byDefault, role, want string }{
		{"eu-west-1", "us-east-1", role, "eu-west-1"},
		{"eu-west-1", "", role, "eu-west-1"},
		{"eu-west-1", "cn-north-1", chinese, "cn-north-1"},
		{"cn-north-1", "eu-west-1", role, "eu-west-1"},
		{"eu-west-1", "us-gov-west-1", chinese, "eu-west-1"}, // neither knows it
		{"eu-west-1", "us-east-1", chinese, "eu-west-1"},
		{"cn-north-1", "", role, "cn-north-1"},
	} {
		if got := (Config{DefaultRegion: tt.byDefault}).regionFor(tt.region, tt.role); got != tt.want {
			t.Errorf("%+v: asked in %s", tt, got)
		}
	}
}

// The status of the metadata service is in the text of an error that does not unwrap, perhaps at its end.
func TestExplainOfTheMetadataService(t *testing.T) {
	s := &Session{seen: &seen{}}
	for text, want := range map[string]string{
		"operation error ec2imds: GetMetadata, http response error StatusCode: 404":             "it answers 404;",
		"operation error ec2imds: GetMetadata, http response error StatusCode: 500, request to": "it answers 500;",
		"operation error ec2imds: GetMetadata, http response error StatusCode: 40":              "it does not answer;",
		"operation error ec2imds: GetMetadata, access disabled":                                 "it is turned off",
	} {
		if err := s.Explain(errors.New(text)); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
