// Package marks writes into what clouds let objects carry which cluster they are of, and which routes were
// made for it, and reads it back: here into plain tags. Who else uses an object, and what its name and
// description tell, is the cloud's.
//
// It decides nothing: cloud.Judge does.
package marks

import (
	"slices"
	"strings"
)

// Prefix begins the tag that says which cluster an object belongs to, by the UID of its namespace
// kube-system: cluster names are not unique.
const Prefix = "isthmus-cluster="

// Tag is what an object of the cluster with that UID carries.
func Tag(clusterUID string) string { return Prefix + clusterUID }

// ClusterUID is that of the first cluster that tags name, "" for none.
func ClusterUID(tags []string) string {
	for _, t := range tags {
		if uid, ok := strings.CutPrefix(t, Prefix); ok {
			return uid
		}
	}
	return ""
}

// Add returns tags with those of more that they lack, in that order. tags are not changed.
func Add(tags []string, more ...string) []string {
	out := slices.Clone(tags)
	for _, t := range more {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
