package ecr

import (
	"slices"
	"strings"

	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/aws"
)

// registry is an ECR registry, as its host name tells.
type registry struct {
	// account is the registry's owner; "" for ECR Public.
	account string
	// region is where its tokens come from.
	region          string
	fips, dualStack bool
	domain          domain
}

// publicRegion is where the tokens for ECR Public come from, wherever the node is.
const publicRegion = "us-east-1"

// domain is a part of AWS with domains of its own (a partition).
type domain struct {
	// region begins the names of its regions, up to the part after it.
	region string
	// suffix is the domain of its registries, and stackSuffix that of its dual-stack ones; "" for none that is known.
	suffix, stackSuffix string
	// noFIPS says that it has no FIPS registries.
	noFIPS bool
}

// domains are all partitions. A region outside of its domain is no registry: a token must not go to
// a host that only looks like one. The last takes all regions that no other has, as regions are added.
var domains = []domain{
	{region: "cn-", suffix: "amazonaws.com.cn", stackSuffix: "on.amazonwebservices.com.cn", noFIPS: true},
	{region: "us-gov-", suffix: "amazonaws.com", stackSuffix: "on.aws"},
	{region: "eusc-", suffix: "amazonaws.eu"},
	{region: "us-iso-", suffix: "c2s.ic.gov"},
	{region: "us-isob-", suffix: "sc2s.sgov.gov"},
	{region: "eu-isoe-", suffix: "cloud.adc-e.uk"},
	{region: "us-isof-", suffix: "csp.hci.ic.gov"},
	{suffix: "amazonaws.com", stackSuffix: "on.aws"},
}

func domainOf(region string) domain {
	for _, d := range domains {
		if strings.HasPrefix(region, d.region) {
			return d
		}
	}
	return domain{}
}

// parseHost tells of a host name which registry it is; false if it is none of ECR's. The port
// may only be 443: AWS has no others.
func parseHost(host string) (registry, bool) {
	host = strings.TrimSuffix(host, ":443")
	switch host {
	case "public.ecr.aws":
		return registry{region: publicRegion, domain: domainOf(publicRegion)}, true
	case "ecr-public.aws.com":
		return registry{region: publicRegion, domain: domainOf(publicRegion), dualStack: true}, true
	}
	// <account>.dkr.ecr.<region>.<suffix>, with -fips behind ecr or not; dual-stack it is dkr-ecr.
	account, rest, _ := strings.Cut(host, ".")
	r := registry{account: account}
	if len(account) != 12 || strings.Trim(account, "0123456789") != "" {
		return registry{}, false
	}
	rest, plain := strings.CutPrefix(rest, "dkr.ecr")
	if !plain {
		if rest, r.dualStack = strings.CutPrefix(rest, "dkr-ecr"); !r.dualStack {
			return registry{}, false
		}
	}
	rest, r.fips = strings.CutPrefix(rest, "-fips")
	rest, dot := strings.CutPrefix(rest, ".")
	var suffix string
	r.region, suffix, _ = strings.Cut(rest, ".")
	if !dot || auth.CheckRegion(r.region) != nil {
		return registry{}, false
	}
	r.domain = domainOf(r.region)
	want := r.domain.suffix
	if r.dualStack {
		want = r.domain.stackSuffix
	}
	return r, want != "" && suffix == want && (!r.fips || !r.domain.noFIPS)
}

// patterns are what the kubelet's matchImages takes for all of these hosts; first those that most have.
func patterns() []string {
	all := domains[len(domains)-1].patterns()
	for _, d := range domains {
		for _, pattern := range d.patterns() {
			if !slices.Contains(all, pattern) {
				all = append(all, pattern)
			}
		}
	}
	return append(all, publicHosts()...)
}

// publicHosts are those of ECR Public.
func publicHosts() []string { return []string{"public.ecr.aws", "ecr-public.aws.com"} }

// patterns are those of one partition.
func (d domain) patterns() []string {
	all := []string{"*.dkr.ecr.*." + d.suffix}
	if !d.noFIPS {
		all = append(all, "*.dkr.ecr-fips.*."+d.suffix)
	}
	if d.stackSuffix != "" {
		all = append(all, "*.dkr-ecr.*."+d.stackSuffix)
		if !d.noFIPS {
			all = append(all, "*.dkr-ecr-fips.*."+d.stackSuffix)
		}
	}
	return all
}
