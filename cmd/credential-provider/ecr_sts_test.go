package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	awssim "github.com/isthmus-cloud/isthmus/test/cloudsim/aws"
)

// Which STS is asked is for the node and the role; of what sort the image's host is decides on the registry's
// endpoint alone. Names that AWS does not have (sts-fips.eu-west-1.amazonaws.com) are refused.
func TestSTSHosts(t *testing.T) {
	const direct = "" // the simulator itself, as an endpoint of one's own
	for name, tt := range map[string]struct {
		image, partition string
		env              []string // SIM stands for the simulator's URL
		want             []string // the hosts that are asked
	}{
		"FIPS in another region": {".dkr.ecr-fips.us-east-1.amazonaws.com", "aws", []string{"AWS_REGION=eu-west-1"},
			[]string{"sts.eu-west-1.amazonaws.com", "api.ecr-fips.us-east-1.amazonaws.com"}},
		"FIPS with an STS endpoint": {".dkr.ecr-fips.us-east-1.amazonaws.com", "aws", []string{"AWS_ENDPOINT_URL_STS=SIM"},
			[]string{direct, "api.ecr-fips.us-east-1.amazonaws.com"}},
		"dual-stack with an STS endpoint": {".dkr-ecr.eu-central-1.on.aws", "aws", []string{"AWS_ENDPOINT_URL_STS=SIM"},
			[]string{direct, "ecr.eu-central-1.api.aws"}},
		"FIPS and dual-stack with an STS endpoint": {".dkr-ecr-fips.us-west-2.on.aws", "aws", []string{"AWS_ENDPOINT_URL_STS=SIM"},
			[]string{direct, "ecr-fips.us-west-2.api.aws"}},
		"FIPS with endpoints for all": {".dkr.ecr-fips.us-east-1.amazonaws.com", "aws", []string{"AWS_ENDPOINT_URL=SIM"}, []string{direct, direct}},
		"FIPS with an ECR endpoint": {".dkr.ecr-fips.us-east-1.amazonaws.com", "aws", []string{"AWS_ENDPOINT_URL_ECR=SIM"},
			[]string{"sts.us-east-1.amazonaws.com", direct}},
		"FIPS by the environment": {".dkr.ecr.us-east-1.amazonaws.com", "aws", []string{"AWS_USE_FIPS_ENDPOINT=true"},
			[]string{"sts-fips.us-east-1.amazonaws.com", "api.ecr-fips.us-east-1.amazonaws.com"}},
		"dual-stack by the environment": {".dkr.ecr.us-east-1.amazonaws.com", "aws", []string{"AWS_USE_DUALSTACK_ENDPOINT=true"},
			[]string{"sts.us-east-1.api.aws", "ecr.us-east-1.api.aws"}},
		"FIPS by the environment, with an ECR endpoint": {".dkr.ecr.us-east-1.amazonaws.com", "aws", []string{"AWS_USE_FIPS_ENDPOINT=true", "AWS_ENDPOINT_URL_ECR=SIM"},
			[]string{"sts-fips.us-east-1.amazonaws.com", direct}},
		"dual-stack by the environment, with an ECR endpoint": {".dkr.ecr.us-east-1.amazonaws.com", "aws", []string{"AWS_USE_DUALSTACK_ENDPOINT=true", "AWS_ENDPOINT_URL_ECR=SIM"},
			[]string{"sts.us-east-1.api.aws", direct}},
		"FIPS in GovCloud": {".dkr.ecr-fips.us-gov-west-1.amazonaws.com", "aws-us-gov", nil,
			[]string{"sts.us-gov-west-1.amazonaws.com", "api.ecr-fips.us-gov-west-1.amazonaws.com"}},
		"China from elsewhere": {".dkr.ecr.cn-north-1.amazonaws.com.cn", "aws-cn", []string{"AWS_REGION=eu-central-1"},
			[]string{"sts.cn-north-1.amazonaws.com.cn", "api.ecr.cn-north-1.amazonaws.com.cn"}},
		"China's other region": {".dkr.ecr.cn-north-1.amazonaws.com.cn", "aws-cn", []string{"AWS_REGION=cn-northwest-1"},
			[]string{"sts.cn-northwest-1.amazonaws.com.cn", "api.ecr.cn-north-1.amazonaws.com.cn"}},
		"sovereign cloud from elsewhere": {".dkr.ecr.eusc-de-east-1.amazonaws.eu", "aws-eusc", []string{"AWS_REGION=us-east-1"},
			[]string{"sts.eusc-de-east-1.amazonaws.eu", "api.ecr.eusc-de-east-1.amazonaws.eu"}},
		"isolated from elsewhere": {".dkr.ecr.us-isob-east-1.sc2s.sgov.gov", "aws-iso-b", []string{"AWS_REGION=us-iso-east-1"},
			[]string{"sts.us-isob-east-1.sc2s.sgov.gov", "api.ecr.us-isob-east-1.sc2s.sgov.gov"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startAWS(t)
			role := w.AddRole(awssim.Principal{Partition: tt.partition, Account: ownAccount, Name: "pull", Actions: []string{"ecr:*"}, Trust: awssim.Trust{Subjects: []string{"system:serviceaccount:team:app"}}})
			env := append(w.Env(), "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
			for _, v := range tt.env {
				env = append(env, strings.ReplaceAll(v, "SIM", w.URL()))
			}
			stdin := podRequest(t, ownAccount+tt.image+"/app", w.token(t, "app", time.Hour), map[string]string{ownKey: role})
			got := executeEnv(t, env, stdin, "--registries=ecr", "--identity=serviceAccount")
			var asked []string
			for _, r := range w.Requests() {
				asked = append(asked, r.Host)
			}
			if got.code != 0 || !slices.Equal(asked, tt.want) || len(w.Refused()) != 0 {
				t.Errorf("exit %d, asked %q and %v, want %q: %s", got.code, asked, w.Refused(), tt.want, got.stderr)
			}
		})
	}
}

// What another attempt does not change is said at once: who proves to be somebody else, and a proxy that refuses.
func TestECRDoesNotTryAgainWhatLasts(t *testing.T) {
	for name, tt := range map[string]struct {
		env  func(*awsWorld) []string
		want string
	}{
		"certificate": {func(*awsWorld) []string {
			return []string{"AWS_CA_BUNDLE=", "SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/nowhere"}
		},
			"AWS ECR (GetAuthorizationToken) at api.ecr.eu-central-1.amazonaws.com has a certificate that the system's CAs do not vouch for"},
		"proxy": {func(*awsWorld) []string { return []string{"AWS_ENDPOINT_URL_ECR=https://no.such.example"} },
			"AWS ECR (GetAuthorizationToken) at no.such.example cannot be reached (the proxy refuses: 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startAWS(t)
			env := slices.Concat(w.Env(), []string{"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"}, tt.env(w))
			before := w.Connects()
			got := executeEnv(t, env, request("v1", ownRegistry+"/app"), "--registries=ecr")
			checkOutcome(t, got)
			if n := w.Connects() - before; got.code != 1 || !strings.Contains(got.stderr, tt.want) || n != 1 {
				t.Errorf("exit %d after %d connections, %q, want one and %q", got.code, n, got.stderr, tt.want)
			}
		})
	}
}
