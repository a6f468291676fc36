package ecr

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The patterns of a partition are those of its registries, and of all partitions together all.
func TestInPartitions(t *testing.T) {
	all := append(patterns(), "docker.io")
	for names, want := range map[string][]string{
		"aws-cn":   {"*.dkr.ecr.*.amazonaws.com.cn", "*.dkr-ecr.*.on.amazonwebservices.com.cn", "docker.io"},
		"aws-eusc": {"*.dkr.ecr.*.amazonaws.eu", "*.dkr.ecr-fips.*.amazonaws.eu", "docker.io"},
		"aws": {"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr-fips.*.amazonaws.com", "*.dkr-ecr.*.on.aws", "*.dkr-ecr-fips.*.on.aws",
			"public.ecr.aws", "ecr-public.aws.com", "docker.io"},
		"aws-us-gov": {"*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr-fips.*.amazonaws.com", "*.dkr-ecr.*.on.aws", "*.dkr-ecr-fips.*.on.aws", "docker.io"},
		"aws-cn,aws-iso": {"*.dkr.ecr.*.amazonaws.com.cn", "*.dkr-ecr.*.on.amazonwebservices.com.cn",
			"*.dkr.ecr.*.c2s.ic.gov", "*.dkr.ecr-fips.*.c2s.ic.gov", "docker.io"},
		strings.Join(Partitions(), ","): all,
	} {
		got, err := InPartitions(all, strings.Split(names, ","))
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", names, err, diff)
		}
	}
	if len(partitions) != len(domains) {
		t.Errorf("%d names for %d partitions", len(partitions), len(domains))
	}
	if _, err := InPartitions(all, []string{"aws-china"}); err == nil || !strings.Contains(err.Error(), `"aws-china" is no partition; known are aws, aws-cn,`) {
		t.Errorf("got %v", err)
	}
}
