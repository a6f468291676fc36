// Package tags reads and writes the tags by which AWS' objects are a cluster's, as the existing manager does.
//
// It does not set them on anything.
package tags

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	prefix = "kubernetes.io/cluster/"
	// legacy is the key of the old tag, whose value is the cluster's ID. An object with it has one cluster.
	legacy = "KubernetesCluster"
	// owned is the value of a cluster's tag on what goes with the cluster.
	owned = "owned"
	// controllers is the key of the tag of what aws-load-balancer-controller has made. It gives its security groups the names that the
	// existing manager gives them, and tags of a user's choice.
	controllers = "elbv2.k8s.aws/cluster"

	// uid is the key of the tag that says which cluster has made an object, by the UID of its namespace kube-system: two clusters may have
	// one ID. It is set in the call that makes the object, and never later: what the existing manager has made stays as it is.
	uid = "isthmus-cloud.github.io/cluster-uid"
	// service is the key of the tag of security groups that says for which Service they were made. Other objects have the existing manager's.
	service = "isthmus-cloud.github.io/service"
	// most is how many tags an object has at most; AWS says so of classic load balancers.
	most, mostClassic = 50, 10
)

// Key is the key of a cluster's tag. Its value (owned, shared) says nothing here.
func Key(cluster string) string { return prefix + cluster }

// Keys are the keys of which an object of the cluster has one. Has judges by the values, too.
func Keys(cluster string) []string { return []string{Key(cluster), legacy} }

// Has reports whether the tags are those of an object of the cluster. Nothing is one's without a name.
func Has(tags []types.Tag, cluster string) bool {
	return cluster != "" && slices.ContainsFunc(tags, func(t types.Tag) bool {
		key := aws.ToString(t.Key)
		return key == Key(cluster) || key == legacy && aws.ToString(t.Value) == cluster
	})
}

// Owned reports whether the tags say that the object is the cluster's alone, and goes with it: what it has made itself.
func Owned(tags []types.Tag, cluster string) bool {
	if slices.ContainsFunc(tags, func(t types.Tag) bool { return aws.ToString(t.Key) == controllers }) {
		return false
	}
	return cluster != "" && slices.ContainsFunc(tags, func(t types.Tag) bool {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		return key == Key(cluster) && value == owned || key == legacy && value == cluster
	})
}

// Free reports whether the tags are those of an object of no cluster; the old tag does not count.
func Free(tags []types.Tag) bool {
	return !slices.ContainsFunc(tags, func(t types.Tag) bool { return strings.HasPrefix(aws.ToString(t.Key), prefix) })
}

// New are the tags of what the cluster makes: beside its own, which win, those of more. Clusters that old says so of have the old
// tag, too.
func New(cluster string, old bool, more map[string]string) map[string]string {
	out := maps.Clone(more)
	if out == nil {
		out = map[string]string{}
	}
	if old {
		out[legacy] = cluster
	}
	out[Key(cluster)] = owned
	return out
}

// ClusterOf is the ID of the cluster whose tags an object has. None, several or contradicting ones are an error.
func ClusterOf(tags []types.Tag) (string, error) {
	var ids []string
	for _, t := range tags {
		id, ok := strings.CutPrefix(aws.ToString(t.Key), prefix)
		if aws.ToString(t.Key) == legacy {
			id, ok = aws.ToString(t.Value), true
		}
		if ok && id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("it has no tag %s<ID>", prefix)
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("its tags name %d clusters (%s)", len(ids), strings.Join(ids, ", "))
}

// ClusterIn is the cluster that an object's tags, by their keys, name: this one where they name it, else any other, "" where they
// name none.
func ClusterIn(tags map[string]string, cluster string) string {
	other := ""
	for key, value := range tags {
		id, ok := strings.CutPrefix(key, prefix)
		if key == legacy {
			id, ok = value, true
		}
		switch {
		case ok && id == cluster:
			return cluster
		case ok && id > other:
			other = id
		}
	}
	return other
}

// Marked returns the tags of a new object with that of the UID of its cluster, as far as AWS takes one more: what a Service wants goes first.
func Marked(all map[string]string, clusterUID string) map[string]string {
	return with(all, uid, clusterUID, most)
}

// MarkedClassic is Marked of a classic load balancer.
func MarkedClassic(all map[string]string, clusterUID string) map[string]string {
	return with(all, uid, clusterUID, mostClassic)
}

// MarkedGroup is Marked of the security group of a Service, "default/web".
func MarkedGroup(all map[string]string, clusterUID, of string) map[string]string {
	return with(with(all, uid, clusterUID, most), service, of, most)
}

func with(all map[string]string, key, value string, most int) map[string]string {
	if len(all) >= most || value == "" {
		return all
	}
	out := maps.Clone(all)
	out[key] = value
	return out
}

// Made reports whether the tags are those of what a cluster has made itself, by its ID, and no other has. proof is the cluster's UID, ""
// where the object does not carry it: then another cluster with the same ID may have made it.
func Made(all []types.Tag, cluster, clusterUID string) (proof string, ok bool) {
	if id, err := ClusterOf(all); err != nil || id != cluster || !Owned(all, cluster) {
		return "", false
	}
	proof = value(all, uid)
	return proof, proof == "" || proof == clusterUID
}

// ServiceOf is the Service for which a security group was made, "" where its tags do not say it.
func ServiceOf(all []types.Tag) string { return value(all, service) }

func value(all []types.Tag, key string) string {
	for _, t := range all {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}
