package decorate

import "github.com/isthmus-cloud/isthmus/pkg/cloud"

// realms remembers where instances of the cluster's Nodes were seen. At start the node
// controller asks about every Node, so that it takes no longer than the first round to know
// them. The zero value is ready; it has no lock.
type realms struct {
	// proven are the realms in which a Node's provider ID led to an instance.
	proven map[string]bool
	// named holds the realms of instances found by name, by their provider IDs, until one is
	// proven: a name is weaker evidence, others may have instances of the same names.
	named map[string]string
}

// saw records that ref led to the instance.
func (r *realms) saw(ref cloud.InstanceRef, instance *cloud.Instance) {
	switch realm := instance.Realm; {
	case realm == "" || r.proven[realm]:
	case ref.ProviderID != "":
		r.prove(realm)
	default:
		if r.named == nil {
			r.named = map[string]string{}
		}
		r.named[instance.ProviderID] = realm
	}
}

// shown reports whether realm has shown enough of the cluster for its word about ref.
func (r *realms) shown(realm string, ref cloud.InstanceRef) bool {
	if ref.ProviderID != "" && r.named[ref.ProviderID] == realm { // this very instance was there before
		r.prove(realm)
	}
	if r.proven[realm] {
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
