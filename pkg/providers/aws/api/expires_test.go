package api_test

import (
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

// TestExpiryIsTold: keys of a user have no end, those of an instance have one.
func TestExpiryIsTold(t *testing.T) {
	cloudAPI := apitest.Start(t)
	var told []time.Time
	ask := func() time.Time {
		t.Helper()
		told = nil
		c, _ := cloudAPI.Client(conf, cloud.Options{Expires: func(at time.Time) { told = append(told, at) }})
		if err := c.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(told) != 1 {
			t.Fatalf("told %v, want one time", told)
		}
		return told[0]
	}
	if at := ask(); !at.IsZero() {
		t.Errorf("keys of a user end at %v", at)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	cloudAPI.SetInstanceRole(cloudAPI.AddRole(awssim.Principal{Account: apitest.Account, Name: "node", Actions: []string{"ec2:*"}}))
	if at := ask(); time.Until(at) < 10*time.Minute || time.Until(at) > 24*time.Hour {
		t.Errorf("keys of an instance end at %v", at)
	}
}
