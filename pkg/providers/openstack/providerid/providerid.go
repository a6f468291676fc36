// Package providerid reads and writes the provider IDs of Nodes, as
// openstack-cloud-controller-manager does.
//
// It does not look a server up, and does not know which region is ours.
package providerid

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// Name is the value of --cloud-provider and the scheme of provider IDs.
const Name = "openstack"

// Parse splits a Node's provider ID into the server's UUID, in lower case, and
// the region it names, if any. The forms are
//
//	openstack:///<uuid>
//	openstack://<region>/<uuid>
//
// with or without "openstack://". Anything else is KindInvalid: a Node that belongs to
// another cloud is never NotFound here.
func Parse(id string) (uuid, region string, err error) {
	rest := id
	if scheme, after, ok := strings.Cut(id, "://"); ok {
		if scheme != Name {
			return "", "", cloud.Errorf(cloud.KindInvalid, "provider ID %.200q belongs to cloud %.50q, not to %s", id, scheme, Name)
		}
		rest = after
	}
	region, uuid, ok := strings.Cut(rest, "/")
	if !ok || !text.IsUUID(uuid) || strings.Contains(region, ":") {
		return "", "", cloud.Errorf(cloud.KindInvalid, "provider ID %.200q is not openstack:///<uuid> or openstack://<region>/<uuid>", id)
	}
	return strings.ToLower(uuid), region, nil
}

// Owns implements cloud.Provider.Owns: a provider ID may be without "openstack://".
func Owns(n *corev1.Node) bool {
	scheme, _, ok := strings.Cut(n.Spec.ProviderID, "://")
	return !ok || scheme == Name
}

// Format writes a server's provider ID; region is empty unless provider IDs are regional.
func Format(uuid, region string) string {
	return Name + "://" + region + "/" + uuid
}
