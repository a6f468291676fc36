package ecr

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/aws/aws-sdk-go-v2/service/ecrpublic"

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
		if !ok || r.account != want.account || r.region != want.region || r.api(r.fips, r.dualStack) != want.api {
			t.Errorf("%s: %+v, %t with the API %s, want %+v", host, r, ok, r.api(r.fips, r.dualStack), want)
		}
		if !matched(host) {
			t.Errorf("%s: none of the patterns for the kubelet matches", host)
		}
	}
}

// The credentials go to no host that only looks like one of AWS'.
func TestDefectLookalikeHosts(t *testing.T) {
	for _, host := range []string{
		"", "docker.io", "ecr.aws", "xpublic.ecr.aws", "public.ecr.aws.evil.example", "public.ecr.aws:5000",
		"123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.example", "123456789012.dkr.ecr.us-east-1.evil.example", "evil.123456789012.dkr.ecr.us-east-1.amazonaws.com",
		"12345678901.dkr.ecr.us-east-1.amazonaws.com", "1234567890123.dkr.ecr.us-east-1.amazonaws.com", "12345678901a.dkr.ecr.us-east-1.amazonaws.com",
		"123456789012.dkr.ecr.us-east-1.amazonaws.com:5000", "123456789012.dkr.ecr.us-east-1.amazonaws.com.", "123456789012.dkr.ecr.amazonaws.com",
		"123456789012.dkr.ecr.us-east-1.amazonaws.com.cn", "123456789012.dkr.ecr.cn-north-1.amazonaws.com", "123456789012.dkr.ecr.us-iso-east-1.amazonaws.com", "123456789012.dkr.ecr.us-east-1.c2s.ic.gov",
		"123456789012.dkr.ecr-fips.cn-north-1.amazonaws.com.cn", "123456789012.dkr-ecr.us-east-1.amazonaws.com", "123456789012.dkr.ecr.us-east-1.on.aws",
		"123456789012.dkr.ecrx.us-east-1.amazonaws.com", "123456789012.dkr.ecr-fip.us-east-1.amazonaws.com", "123456789012.dkr.ecr.evil/x.amazonaws.com", "123456789012.dkr.ecr.us-east-1",
	} {
		if r, ok := parseHost(host); ok {
			t.Errorf("%q is taken for %+v", host, r)
		}
	}
}

// The API's names are those that AWS' own SDK computes.
func TestEndpointsAreTheSDKs(t *testing.T) {
	for _, region := range []string{"us-east-1", "eu-central-1", "us-gov-west-1", "cn-north-1", "eusc-de-east-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "us-isof-south-1"} {
		for _, fips := range []bool{false, true} {
			for _, dual := range []bool{false, true} {
				r := registry{account: "123456789012", region: region, domain: domainOf(region)}
				if dual && r.domain.stackAPI == "" || fips && r.domain.noFIPS {
					continue
				}
				endpoint, err := ecr.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), ecr.EndpointParameters{Region: &region, UseFIPS: aws.Bool(fips), UseDualStack: aws.Bool(dual)})
				if err != nil {
					t.Errorf("%s, FIPS %t, dual-stack %t: %v", region, fips, dual, err)
				} else if got := r.api(fips, dual); got != endpoint.URI.Host {
					t.Errorf("%s, FIPS %t, dual-stack %t: %s, but the SDK has %s", region, fips, dual, got, endpoint.URI.Host)
				}
			}
		}
	}
	for _, dual := range []bool{false, true} {
		r := registry{region: publicRegion, domain: domainOf(publicRegion)}
		endpoint, err := ecrpublic.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), ecrpublic.EndpointParameters{Region: aws.String(publicRegion), UseFIPS: aws.Bool(false), UseDualStack: &dual})
		if err != nil || r.api(true, dual) != endpoint.URI.Host {
			t.Errorf("ECR Public, dual-stack %t: %s, but the SDK has %s, %v", dual, r.api(true, dual), endpoint.URI.Host, err)
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
		if r.account != "" && !known || !matched(normal) || strings.ContainsAny(r.api(false, false), "/@:?# ") {
			t.Errorf("%q is taken for %+v with the API %s", host, r, r.api(false, false))
		}
	})
}
