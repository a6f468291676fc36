package decorate

import (
	"context"
	"fmt"
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// How Nodes do not get the instances of another project that bear their names.
//
// Where the credentials are another project's, a new Node would keep a stranger's addresses
// and provider ID for life, and after the next start that ID would prove the wrong scope: the
// Nodes that are really the cluster's would be gone there. So an instance found by no more
// than its name is not the Node's, nor is one that has not been found by it gone, while the
// scope is not proven and none of the elders, Nodes whose provider IDs are older than this
// process, is found anywhere. In a new cluster there are no elders, and where the machine's UUID is that of
// the instance this alone proves the scope.

// namesake returns why an instance that ref led to is not taken for the Node's, nil as a rule.
func (i *Instances) namesake(ctx context.Context, ref cloud.InstanceRef, instance *cloud.Instance) error {
	if ref.ProviderID != "" || instance.Scope == "" || !i.brake.hasElders(instance.Scope) {
		return nil
	}
	return i.brake.checkName(ctx, i.census(ctx, instance.Scope), instance)
}

// strange reports whether Nodes that could prove a scope are there and none of them is seen.
func (c census) strange() bool { return c.elders > 0 && c.eldersSeen == 0 }

// stranger says what is wrong with a project that has none of the elders.
func (c census) stranger() string {
	return fmt.Sprintf("none of %d nodes that had a provider ID at start was found there; check that the credentials and the region are the cluster's own", c.elders)
}

// isElder reports whether ref's provider ID is older than this process.
func (b *brake) isElder(ref cloud.InstanceRef) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scopes.isElder(ref)
}

// hasElders reports whether scope is not proven although there are Nodes to prove one.
func (b *brake) hasElders(scope string) bool {
	b.mu.Lock()
	unproven := b.opts != nil && !b.scopes.proven[scope]
	b.mu.Unlock()
	return unproven && slices.ContainsFunc(b.opts.Nodes.List(), b.isElder)
}

// checkName returns why an instance found by its name is not believed, nil when it is.
func (b *brake) checkName(ctx context.Context, c census, instance *cloud.Instance) error {
	if !c.strange() {
		return nil
	}
	if released, _ := b.operator(ctx); released {
		return nil
	}
	return cloud.Errorf(cloud.KindUnknown, "%s has this name, but it is in doubt: %s", instance.ProviderID, c.stranger())
}
