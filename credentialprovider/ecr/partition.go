package ecr

import (
	"fmt"
	"slices"
	"strings"
)

// partitions are the names of the parts of AWS, by the beginning of their regions' names.
var partitions = map[string]string{
	"aws": "", "aws-cn": "cn-", "aws-us-gov": "us-gov-", "aws-eusc": "eusc-",
	"aws-iso": "us-iso-", "aws-iso-b": "us-isob-", "aws-iso-e": "eu-isoe-", "aws-iso-f": "us-isof-",
}

// Partitions are the names of the parts of AWS that have domains of their own.
func Partitions() []string {
	var names []string
	for name := range partitions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// InPartitions returns, of patterns of MatchImages, those for registries in these partitions: what no
// partition has, such as an upstream of a mirror, stays. ECR Public is of the partition aws.
func InPartitions(images, names []string) ([]string, error) {
	chosen := map[string]bool{}
	for _, name := range names {
		region, ok := partitions[name]
		if !ok {
			return nil, fmt.Errorf("%q is no partition; known are %s", name, strings.Join(Partitions(), ", "))
		}
		for _, d := range domains {
			for _, pattern := range d.patterns() {
				chosen[pattern] = chosen[pattern] || d.region == region
			}
		}
	}
	for _, host := range publicHosts() {
		chosen[host] = slices.Contains(names, "aws")
	}
	return slices.DeleteFunc(slices.Clone(images), func(image string) bool {
		is, partitioned := chosen[image]
		return partitioned && !is
	}), nil
}
