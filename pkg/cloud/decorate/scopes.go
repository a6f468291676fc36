package decorate

import (
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// maxNamed is how many instances found by name prove a scope after all.
const maxNamed = 10_000

// scopes remembers where instances of the cluster's Nodes were seen. At start the node
// controller asks about every Node, so that it takes no longer than the first round to know
// them. The zero value is ready; it has no lock.
type scopes struct {
	// proven are the scopes in which a Node led to an instance by a provider ID that it had
	// before, or by its machine's own UUID.
	proven map[string]bool
	// named holds the scopes of instances found by no more than their names, by the provider
	// IDs that their Nodes got of it, until the scope is proven. It is weaker evidence: other
	// projects may have instances of the same names. So it speaks for that Node, and for those
	// that have nothing but a name either, and not for any with a provider ID.
	named map[string]string
}

// saw records that ref led to the instance.
func (r *scopes) saw(ref cloud.InstanceRef, instance *cloud.Instance) {
	switch scope := instance.Scope; {
	case scope == "" || r.proven[scope]:
	case isMachine(ref, instance), r.isElder(ref), len(r.named) >= maxNamed:
		r.prove(scope)
	default:
		if r.named == nil {
			r.named = map[string]string{}
		}
		r.named[instance.ProviderID] = scope
	}
}

// isMachine reports whether ref's machine itself says that it is the instance.
func isMachine(ref cloud.InstanceRef, instance *cloud.Instance) bool {
	return ref.SystemUUID != "" && strings.HasSuffix(strings.ToLower(instance.ProviderID), "/"+strings.ToLower(ref.SystemUUID))
}

// isElder reports whether ref has a provider ID that it did not get by its name since the start.
func (r *scopes) isElder(ref cloud.InstanceRef) bool {
	return ref.ProviderID != "" && r.named[ref.ProviderID] == ""
}

// shown reports whether scope has shown enough of the cluster for its word about ref.
func (r *scopes) shown(scope string, ref cloud.InstanceRef) bool {
	if r.proven[scope] || ref.ProviderID != "" && r.named[ref.ProviderID] == scope { // this very instance was there before
		return true
	}
	if ref.ProviderID == "" {
		for _, known := range r.named {
			if known == scope {
				return true
			}
		}
	}
	return false
}

func (r *scopes) prove(scope string) {
	if r.proven == nil {
		r.proven = map[string]bool{}
	}
	r.proven[scope] = true
	for id, known := range r.named {
		if known == scope {
			delete(r.named, id)
		}
	}
}
