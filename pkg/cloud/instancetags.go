package cloud

import "context"

// InstanceTags sets and removes tags on the instances behind Nodes. Instances are named by their provider IDs; each is answered in
// their order, in as few API calls as the cloud allows, and one that cannot be changed keeps no other from it. KindNotFound is the
// cloud's word that there is no such instance, or not yet; KindConflict, that it is not the cluster's, and so is left alone.
type InstanceTags interface {
	// Tag sets the tags, whatever their values were. Other tags stay.
	Tag(ctx context.Context, providerIDs []string, tags map[string]string) []error
	// Untag removes those of the tags that have just these values. What is not there is removed.
	Untag(ctx context.Context, providerIDs []string, tags map[string]string) []error
	// InstanceOf is the instance's own ID, by which forms of one provider ID are told from another instance's. What is no provider
	// ID of the cloud's stays as it is.
	InstanceOf(providerID string) string
}
