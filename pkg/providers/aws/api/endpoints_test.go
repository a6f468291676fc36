package api_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api/apitest"
	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

// asProcess is the environment's variable with the cloud.conf of a process that asks each service for something.
const asProcess = "ISTHMUS_TEST_ASKS_WITH"

// TestAskEachService is what that process does. It is one of its own as Go reads which proxy to take once.
func TestAskEachService(t *testing.T) {
	text := os.Getenv(asProcess)
	if text == "" {
		return // TestEndpointsOfTheEnvironment runs it
	}
	c := apitest.ClientOf(t, text, cloud.Options{})
	_, balancers := c.Balancers(t.Context())
	_, classic := c.ClassicBalancers(t.Context())
	for _, err := range []error{c.Check(t.Context()), balancers, classic} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestEndpointsOfTheEnvironment: FIPS and dual-stack endpoints are those of each service, STS among them, by the names that AWS has.
func TestEndpointsOfTheEnvironment(t *testing.T) {
	for name, tt := range map[string]struct {
		region string
		env    []string
		file   string
		want   string // the names that are asked, with * in place of the service
	}{
		"usual":                 {apitest.Region, nil, "", "*.eu-central-1.amazonaws.com"},
		"dual-stack":            {apitest.Region, []string{"AWS_USE_DUALSTACK_ENDPOINT=true"}, "", "*.eu-central-1.api.aws"},
		"FIPS":                  {"us-east-1", []string{"AWS_USE_FIPS_ENDPOINT=true"}, "", "*-fips.us-east-1.amazonaws.com"},
		"both":                  {"us-east-1", []string{"AWS_USE_FIPS_ENDPOINT=true", "AWS_USE_DUALSTACK_ENDPOINT=true"}, "", "*-fips.us-east-1.api.aws"},
		"dual-stack by profile": {apitest.Region, nil, "use_dualstack_endpoint = true\n", "*.eu-central-1.api.aws"},
		"FIPS by profile":       {"us-east-1", nil, "use_fips_endpoint = true\n", "*-fips.us-east-1.amazonaws.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim, err := awssim.Start(awssim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(sim.Close)
			keys := sim.AddUser(awssim.Principal{Account: apitest.Account, Name: "ccm", Actions: []string{"sts:AssumeRole"}})
			role := sim.AddRole(awssim.Principal{Account: apitest.Account, Name: "role", Actions: []string{"ec2:*", "elasticloadbalancing:*"},
				Trust: awssim.Trust{Principals: []string{"arn:aws:iam::" + apitest.Account + ":user/ccm"}}})
			profile := filepath.Join(t.TempDir(), "config")
			if err := os.WriteFile(profile, []byte("[default]\n"+tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAskEachService$") //nolint:gosec // itself
			process.Env = slices.Concat([]string{"HOME=" + t.TempDir(), asProcess + "=[Global]\nRegion = " + tt.region + "\nRoleARN = " + role + "\n",
				"AWS_ACCESS_KEY_ID=" + keys.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + keys.SecretAccessKey, "AWS_CONFIG_FILE=" + profile,
				"AWS_SHARED_CREDENTIALS_FILE=/dev/null"}, sim.Env(), tt.env)
			if out, err := process.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got, want []string
			for _, r := range sim.Requests() {
				got = append(got, r.Service+" "+r.Host)
			}
			for _, of := range [][2]string{{"ec2", "ec2"}, {"elb", "elasticloadbalancing"}, {"elbv2", "elasticloadbalancing"}, {"sts", "sts"}} {
				want = append(want, of[0]+" "+strings.Replace(tt.want, "*", of[1], 1))
			}
			slices.Sort(got)
			if !slices.Equal(slices.Compact(got), want) {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}
