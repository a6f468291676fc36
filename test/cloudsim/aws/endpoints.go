package aws

import (
	"regexp"
	"strings"
)

// elbService is what both versions of Elastic Load Balancing are called in names and signatures.
const elbService = "elasticloadbalancing"

// endpoint is what a name of AWS stands for.
type endpoint struct {
	service string // "sts", "ecr", "ecr-public", "ec2", "elasticloadbalancing": as signatures have it
	region  string
}

// partition is a part of AWS with names of its own.
type partition struct {
	regions   *regexp.Regexp
	suffix    string
	dualStack string // "" if it has none
	fips      bool
}

// partitions are from AWS' list of endpoints ("AWS service endpoints" and the ECR chapter of it).
func partitions() []partition {
	re := regexp.MustCompile
	return []partition{
		{re(`^(us|eu|ap|sa|ca|me|af|il|mx)-[a-z]+-[0-9]$`), "amazonaws.com", "api.aws", true},
		{re(`^us-gov-[a-z]+-[0-9]$`), "amazonaws.com", "api.aws", true},
		{re(`^cn-[a-z]+-[0-9]$`), "amazonaws.com.cn", "api.amazonwebservices.com.cn", false},
		{re(`^eusc-de-[a-z]+-[0-9]$`), "amazonaws.eu", "api.amazonwebservices.eu", true},
		{re(`^us-iso-[a-z]+-[0-9]$`), "c2s.ic.gov", "api.aws.ic.gov", true},
		{re(`^us-isob-[a-z]+-[0-9]$`), "sc2s.sgov.gov", "api.aws.scloud", true},
		{re(`^eu-isoe-[a-z]+-[0-9]$`), "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk", true},
		{re(`^us-isof-[a-z]+-[0-9]$`), "csp.hci.ic.gov", "api.aws.hci.ic.gov", true},
	}
}

// endpointOf returns what a name stands for; false if AWS does not have it.
func endpointOf(host string) (endpoint, bool) {
	switch host {
	case "sts.amazonaws.com":
		return endpoint{"sts", "us-east-1"}, true
	case "api.ecr-public.us-east-1.amazonaws.com", "ecr-public.us-east-1.api.aws":
		return endpoint{"ecr-public", "us-east-1"}, true
	}
	for _, p := range partitions() {
		for _, shape := range []struct {
			service, prefix, suffix string
			fips                    bool
		}{
			{"sts", "sts.", p.suffix, false}, {"sts", "sts.", p.dualStack, false}, {"sts", "sts-fips.", p.suffix, true}, {"sts", "sts-fips.", p.dualStack, true},
			{"ecr", "api.ecr.", p.suffix, false}, {"ecr", "ecr.", p.dualStack, false},
			{"ecr", "ecr-fips.", p.suffix, true}, {"ecr", "api.ecr-fips.", p.suffix, true}, {"ecr", "ecr-fips.", p.dualStack, true},
			{"ec2", "ec2.", p.suffix, false}, {"ec2", "ec2.", p.dualStack, false}, {"ec2", "ec2-fips.", p.suffix, true}, {"ec2", "ec2-fips.", p.dualStack, true},
			{elbService, elbService + ".", p.suffix, false}, {elbService, elbService + ".", p.dualStack, false},
			{elbService, elbService + "-fips.", p.suffix, true}, {elbService, elbService + "-fips.", p.dualStack, true},
		} {
			rest, ok := strings.CutPrefix(host, shape.prefix)
			if !ok || shape.fips && !p.fips {
				continue
			}
			region, ok := strings.CutSuffix(rest, "."+shape.suffix)
			if shape.service == "sts" && shape.fips && !strings.HasPrefix(region, "us-") && !strings.HasPrefix(region, "ca-") {
				continue // STS has FIPS endpoints in North America alone
			}
			if ok && p.regions.MatchString(region) {
				return endpoint{shape.service, region}, true
			}
		}
	}
	return endpoint{}, false
}

// HasRegion reports whether the name is that of a region as AWS has them.
func HasRegion(name string) bool { return suffixOf(name) != "" }
