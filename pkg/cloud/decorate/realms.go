package decorate

import (
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// maxNamed is how many instances found by name prove a realm after all.
const maxNamed = 10_000

// realms remembers where instances of the cluster's Nodes were seen. At start the node
// controller asks about every Node, so that it takes no longer than the first round to know
// them. The zero value is ready; it has no lock.
type realms struct {
	// proven are the realms in which a Node led to an instance by a provider ID that it had
	// before, or by its machine's own UUID.
	proven map[string]bool
	// named holds the realms of instances found by no more than their names, by the provider
	// IDs that their Nodes got of it, until the realm is proven. It is weaker evidence: other
	// projects may have instances of the same names. So it speaks for that Node, and for those
	// that have nothing but a name either, and not for any with a provider ID.
	named map[string]string
}

// saw records that ref led to the instance.
func (r *realms) saw(ref cloud.InstanceRef, instance *cloud.Instance) {
	switch realm := instance.Realm; {
	case realm == "" || r.proven[realm]:
	case isMachine(ref, instance), r.isElder(ref), len(r.named) >= maxNamed:
		r.prove(realm)
	default:
		if r.named == nil {
			r.named = map[string]string{}
		}
		r.named[instance.ProviderID] = realm
	}
}

// isMachine reports whether ref's machine itself says that it is the instance.
func isMachine(ref cloud.InstanceRef, instance *cloud.Instance) bool {
	return ref.SystemUUID != "" && strings.HasSuffix(strings.ToLower(instance.ProviderID), "/"+strings.ToLower(ref.SystemUUID))
}

// isElder reports whether ref has a provider ID that it did not get by its name since the start.
func (r *realms) isElder(ref cloud.InstanceRef) bool {
	return ref.ProviderID != "" && r.named[ref.ProviderID] == ""
}

// strange reports whether all that was seen was found by name, while Nodes that could have
// proven a realm are not found.
func (r *realms) strange(c census) bool {
	return len(r.proven) == 0 && len(r.named) > 0 && c.elders > 0
}

// shown reports whether realm has shown enough of the cluster for its word about ref.
func (r *realms) shown(realm string, ref cloud.InstanceRef) bool {
	if r.proven[realm] || ref.ProviderID != "" && r.named[ref.ProviderID] == realm { // this very instance was there before
		return true
	}
	if ref.ProviderID == "" {
		for _, known := range r.named {
			if known == realm {
				return true
			}
		}
	}
	return false
}

func (r *realms) prove(realm string) {
	if r.proven == nil {
		r.proven = map[string]bool{}
	}
	r.proven[realm] = true
	for id, known := range r.named {
		if known == realm {
			delete(r.named, id)
		}
	}
}
