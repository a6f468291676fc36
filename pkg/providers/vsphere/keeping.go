package vsphere

import (
	"context"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// keeping are instances of which none is ever said to be gone, so that no Node is deleted: SKIP_NODE_DELETION of the existing manager.
// What a list lacks is no such word.
type keeping struct{ cloud.Instances }

// Get implements cloud.Instances.
func (k keeping) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	i, err := k.Instances.Get(ctx, ref)
	if !cloud.IsNotFound(err) {
		return i, err
	}
	return nil, cloud.Errorf(cloud.KindFailed, "its Node is kept, as SKIP_NODE_DELETION is set: %v", err)
}
