// Package providerid reads and writes the provider IDs of Nodes, as the existing manager does, and says which Nodes are not
// ours.
//
// It does not look an instance up.
package providerid

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Name is the value of --cloud-provider and the scheme of provider IDs.
const Name = "aws"

const scheme = Name + "://"

// Parse returns the instance ID of a Node's provider ID. The forms are
//
//	aws:///<zone>/<instance ID>
//	aws://<host>/…/<instance ID>
//	<instance ID>
//
// of which only the last part counts. Anything else is KindInvalid: a Node that belongs to another cloud is never NotFound
// here.
func Parse(id string) (string, error) {
	if IsInstanceID(id) {
		return id, nil
	}
	if other, _, ok := strings.Cut(id, "://"); ok && other != Name {
		return "", cloud.Errorf(cloud.KindInvalid, "provider ID %.200q belongs to cloud %.50q, not to %s", id, other, Name)
	}
	if last := lastPart(id); IsInstanceID(last) {
		return last, nil
	}
	return "", cloud.Errorf(cloud.KindInvalid, "provider ID %.200q is not aws:///<zone>/<instance ID>, aws://<host>/…/<instance ID> or an instance ID (i-…)", id)
}

// lastPart is what a provider ID names: the last part of its path, "" where it has none.
func lastPart(id string) string {
	if !strings.HasPrefix(id, scheme) {
		id = scheme + "/" + id
	}
	u, err := url.Parse(id)
	if err != nil || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	path := strings.Trim(u.Path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// IsInstanceID reports whether s may be an instance's ID: i- and small letters and digits, so that it means nothing else
// in a filter or a list.
func IsInstanceID(s string) bool {
	rest, ok := strings.CutPrefix(s, "i-")
	return ok && rest != "" && len(rest) <= 64 && strings.Trim(rest, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// named is how AWS' messages name instances.
var named = regexp.MustCompile(`\bi-[0-9a-f]+\b`)

// Without are the instances of ids that an error of AWS' does not name: with one that is refused, all are.
func Without(ids []string, err error) []string {
	refused := named.FindAllString(err.Error(), -1)
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(refused, id) })
}

// Format writes an instance's provider ID.
func Format(zone, id string) string { return scheme + "/" + zone + "/" + id }

const (
	fargate = "fargate-" // Nodes of EKS that are one pod each, on no instance
	hybrid  = "mi-"      // machines of Systems Manager that are no instances
	// computeType is EKS' label of what a Node runs on.
	computeType = "eks.amazonaws.com/compute-type"
)

// Owns implements cloud.Provider.Owns: a provider ID may be without "aws://". Fargate's (fargate-…) and hybrid nodes (mi-…,
// eks-hybrid://…) are no instances: nobody answers for them, so that none is deleted for not being found.
func Owns(n *corev1.Node) bool {
	id := n.Spec.ProviderID
	if id == "" {
		kind := n.Labels[computeType]
		return kind != "fargate" && kind != "hybrid" && !isOther(n.Name)
	}
	other, _, ok := strings.Cut(id, "://")
	return (!ok || other == Name) && !isOther(lastPart(id))
}

// isOther reports whether a name or an ID is of what is no instance.
func isOther(s string) bool { return strings.HasPrefix(s, fargate) || strings.HasPrefix(s, hybrid) }
