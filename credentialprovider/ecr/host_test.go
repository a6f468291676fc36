package ecr

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
)

func TestHosts(t *testing.T) {
	for host, want := range map[string]struct {
		account, region string
		api             string
	}{
		"123456789012.dkr.ecr.us-east-1.amazonaws.com":                    {"123456789012", "us-east-1", "api.ecr.us-east-1.amazonaws.com"},
		"123456789012.dkr.ecr.us-east-1.amazonaws.com:443":                {"123456789012", "us-east-1", "api.ecr.us-east-1.amazonaws.com"},
		"123456789012.dkr.ecr-fips.us-east-1.amazonaws.com":               {"123456789012", "us-east-1", "api.ecr-fips.us-east-1.amazonaws.com"},
		"123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com":           {"123456789012", "us-gov-west-1", "api.ecr-fips.us-gov-west-1.amazonaws.com"},
		"123456789012.dkr-ecr.eu-central-1.on.aws":                        {"123456789012", "eu-central-1", "ecr.eu-central-1.api.aws"},
		"123456789012.dkr-ecr-fips.us-west-2.on.aws":                      {"123456789012", "us-west-2", "ecr-fips.us-west-2.api.aws"},
		"123456789012.dkr-ecr-fips.us-gov-east-1.on.aws":                  {"123456789012", "us-gov-east-1", "ecr-fips.us-gov-east-1.api.aws"},
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn":                {"123456789012", "cn-north-1", "api.ecr.cn-north-1.amazonaws.com.cn"},
		"123456789012.dkr-ecr.cn-northwest-1.on.amazonwebservices.com.cn": {"123456789012", "cn-northwest-1", "ecr.cn-northwest-1.api.amazonwebservices.com.cn"},
		"123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu":                {"123456789012", "eusc-de-east-1", "api.ecr.eusc-de-east-1.amazonaws.eu"},
		"123456789012.dkr.ecr.us-iso-east-1.c2s.ic.gov":                   {"123456789012", "us-iso-east-1", "api.ecr.us-iso-east-1.c2s.ic.gov"},
		"123456789012.dkr.ecr.us-isob-east-1.sc2s.sgov.gov":               {"123456789012", "us-isob-east-1", "api.ecr.us-isob-east-1.sc2s.sgov.gov"},
		"123456789012.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk":              {"123456789012", "eu-isoe-west-1", "api.ecr.eu-isoe-west-1.cloud.adc-e.uk"},
		"123456789012.dkr.ecr.us-isof-south-1.csp.hci.ic.gov":             {"123456789012", "us-isof-south-1", "api.ecr.us-isof-south-1.csp.hci.ic.gov"},
		"123456789012.dkr.ecr.mx-central-1.amazonaws.com":                 {"123456789012", "mx-central-1", "api.ecr.mx-central-1.amazonaws.com"},
		"123456789012.dkr.ecr.xx-newest-12.amazonaws.com":                 {"123456789012", "xx-newest-12", "api.ecr.xx-newest-12.amazonaws.com"},
		"public.ecr.aws":     {"", "us-east-1", "api.ecr-public.us-east-1.amazonaws.com"},
		"ecr-public.aws.com": {"", "us-east-1", "ecr-public.us-east-1.api.aws"},
	} {
		r, ok := parseHost(host)
		if !ok || r.account != want.account || r.region != want.region || apiOf(t, r) != want.api {
			t.Errorf("%s: %+v, %t with the API %s, want %+v", host, r, ok, apiOf(t, r), want)
		}
		if !matched(host) {
			t.Errorf("%s: none of the patterns for the kubelet matches", host)
		}
	}
}

// spoken notes whom requests are for, and answers none.
type spoken struct{ hosts []string }

func (s *spoken) Do(r *http.Request) (*http.Response, error) {
	s.hosts = append(s.hosts, r.URL.Host)
	return nil, context.Canceled
}

// apiOf is the host that is asked for a token for a registry.
func apiOf(t *testing.T, r registry) string {
	t.Helper()
	var client spoken
	get := map[bool]func(context.Context, aws.Config, registry) (token, error){true: publicToken, false: privateToken}[r.account == ""]
	_, err := get(t.Context(), aws.Config{HTTPClient: &client, Retryer: func() aws.Retryer { return aws.NopRetryer{} }, Credentials: credentials.NewStaticCredentialsProvider("AKIA", "s", "")}, r)
	if len(client.hosts) != 1 {
		t.Fatalf("%+v: it speaks to %v, %v", r, client.hosts, err)
	}
	return client.hosts[0]
}

// The credentials go to no host that only looks like one of AWS'.
func TestDefectLookalikeHosts(t *testing.T) {
	for _, host := range []string{
		"", "docker.io", "ecr.aws", "xpublic.ecr.aws", "public.ecr.aws.evil.example", "public.ecr.aws:5000",
		"123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.example", "123456789012.dkr.ecr.us-east-1.evil.example", "123456789012.dkr.ecr.us-east-1.evil.amazonaws.com", "123456789012.dkr.ecr.us-east-1.evilamazonaws.com", "evil.123456789012.dkr.ecr.us-east-1.amazonaws.com",
		"12345678901.dkr.ecr.us-east-1.amazonaws.com", "1234567890123.dkr.ecr.us-east-1.amazonaws.com", "12345678901a.dkr.ecr.us-east-1.amazonaws.com",
		"123456789012.dkr.ecr.us-east-1.amazonaws.com:5000", "123456789012.dkr.ecr.us-east-1.amazonaws.com.", "123456789012.dkr.ecr.amazonaws.com",
		"123456789012.dkr.ecr.us-east-1.amazonaws.com.cn", "123456789012.dkr.ecr.cn-north-1.amazonaws.com", "123456789012.dkr.ecr.us-iso-east-1.amazonaws.com", "123456789012.dkr.ecr.us-east-1.c2s.ic.gov",
		"123456789012.dkr.ecr-fips.cn-north-1.amazonaws.com.cn", "123456789012.dkr-ecr.us-east-1.amazonaws.com", "123456789012.dkr.ecr.us-east-1.on.aws",
		"123456789012.dkr-ecr.eusc-de-east-1", "123456789012.dkr-ecr.us-iso-east-1", "123456789012.dkr-ecr-fips.cn-north-1.on.amazonwebservices.com.cn",
		"123456789012.dkr.ecrx.us-east-1.amazonaws.com", "123456789012.dkr.ecr-fip.us-east-1.amazonaws.com", "123456789012.dkr.ecr.evil/x.amazonaws.com", "123456789012.dkr.ecr.us-east-1",
	} {
		if r, ok := parseHost(host); ok {
			t.Errorf("%q is taken for %+v", host, r)
		}
	}
}

// matched reports whether one of the patterns matches as the kubelet does, label by label.
func matched(host string) bool {
	host, _, _ = strings.Cut(host, ":")
	labels := strings.Split(host, ".")
	for _, p := range patterns() {
		parts := strings.Split(p, ".")
		ok := len(parts) == len(labels)
		for i := range parts {
			ok = ok && (parts[i] == "*" || parts[i] == labels[i])
		}
		if ok {
			return true
		}
	}
	return false
}

// FuzzHost checks that nothing panics, and that whatever is taken for a private registry ends in
// one of AWS' domains, has its API in the same partition and a pattern for the kubelet.
func FuzzHost(f *testing.F) {
	f.Add("123456789012.dkr.ecr.us-east-1.amazonaws.com")
	f.Add("123456789012.dkr-ecr-fips.us-east-1.on.aws:443")
	f.Add("public.ecr.aws")
	f.Fuzz(func(t *testing.T, host string) {
		normal, err := credentialprovider.NormalRegistry(host)
		if err != nil {
			return
		}
		r, ok := parseHost(normal)
		if !ok {
			return
		}
		known := false
		for _, d := range domains {
			plain := strings.TrimSuffix(normal, ":443")
			known = known || strings.HasSuffix(plain, "."+d.suffix) || d.stackSuffix != "" && strings.HasSuffix(plain, "."+d.stackSuffix)
		}
		if r.account != "" && !known || !matched(normal) {
			t.Errorf("%q is taken for %+v", host, r)
		}
	})
}

// fips asks for FIPS endpoints, as AWS_USE_FIPS_ENDPOINT does.
type fips struct{}

func (fips) GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error) {
	return aws.FIPSEndpointStateEnabled, true, nil
}

// ECR Public has no FIPS endpoint, whatever is asked for elsewhere.
func TestPublicWithoutFIPS(t *testing.T) {
	var client spoken
	r, _ := parseHost("public.ecr.aws")
	_, err := publicToken(t.Context(), aws.Config{
		HTTPClient: &client, Retryer: func() aws.Retryer { return aws.NopRetryer{} }, ConfigSources: []any{fips{}}, Credentials: credentials.NewStaticCredentialsProvider("AKIA", "s", ""),
	}, r)
	if len(client.hosts) != 1 || client.hosts[0] != "api.ecr-public.us-east-1.amazonaws.com" {
		t.Errorf("it speaks to %v, %v", client.hosts, err)
	}
}
