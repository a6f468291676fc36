package deletionguard

import (
	"maps"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// maxNameMatches is how many instances found by name prove a scope after all.
const maxNameMatches = 10_000

// evidence remembers in which scopes instances of the cluster's Nodes were seen. At start the
// node controller asks about every Node, so that it takes no longer than the first round to
// know them. The zero value is ready; it has no lock.
type evidence struct {
	// proven are the scopes in which a Node led to an instance by a provider ID that it had
	// before or by its machine's own UUID, or to one that bears the cluster's mark.
	proven map[string]bool
	// nameMatches holds the scopes of instances found by no more than their names, by the
	// provider IDs that their Nodes got of it, until the scope is proven.
	nameMatches map[string]string
}

// saw records that ref led to the instance.
func (e *evidence) saw(ref cloud.InstanceRef, instance *cloud.Instance) {
	switch scope := instance.Scope; {
	case scope == "" || e.proven[scope]:
	case instance.Marked, isMachine(ref, instance), e.existing(ref), len(e.nameMatches) >= maxNameMatches:
		e.prove(scope)
	default:
		if e.nameMatches == nil {
			e.nameMatches = map[string]string{}
		}
		e.nameMatches[instance.ProviderID] = scope
	}
}

// isMachine reports whether ref's machine itself says that it is the instance.
func isMachine(ref cloud.InstanceRef, instance *cloud.Instance) bool {
	return ref.SystemUUID != "" && slices.ContainsFunc(instance.MachineIDs, func(id string) bool {
		return strings.EqualFold(id, ref.SystemUUID)
	})
}

// existing reports whether ref has a provider ID that is more than a name match of this process.
func (e *evidence) existing(ref cloud.InstanceRef) bool {
	return ref.ProviderID != "" && e.nameMatches[ref.ProviderID] == ""
}

// of is what scope has shown that counts for ref.
func (e *evidence) of(scope string, ref cloud.InstanceRef) Evidence {
	switch {
	case scope == "":
		return Unidentified
	case e.proven[scope], ref.ProviderID != "" && e.nameMatches[ref.ProviderID] == scope:
		return IDResolved
	case ref.ProviderID == "":
		for _, known := range e.nameMatches {
			if known == scope {
				return NameMatches
			}
		}
	}
	return NoEvidence
}

func (e *evidence) prove(scope string) {
	if e.proven == nil {
		e.proven = map[string]bool{}
	}
	e.proven[scope] = true
	maps.DeleteFunc(e.nameMatches, func(_, known string) bool { return known == scope })
}
