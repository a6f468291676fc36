package instances

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
)

// TagsLabel is the Node label of which tags its instance has got, as the existing manager writes it.
const TagsLabel = "k8s.io/cloud-provider-aws"

var _ cloud.InstanceTags = (*Instances)(nil)

// Tag implements cloud.InstanceTags with a call for a thousand instances.
func (i *Instances) Tag(ctx context.Context, providerIDs []string, tags map[string]string) []error {
	return i.change(ctx, providerIDs, func(ctx context.Context, ids []string) error { return i.c.CreateTags(ctx, ids, tags) })
}

// Untag implements cloud.InstanceTags as Tag does.
func (i *Instances) Untag(ctx context.Context, providerIDs []string, tags map[string]string) []error {
	return i.change(ctx, providerIDs, func(ctx context.Context, ids []string) error { return i.c.DeleteTags(ctx, ids, tags) })
}

// InstanceOf implements cloud.InstanceTags.
func (i *Instances) InstanceOf(providerID string) string {
	id, err := providerid.Parse(providerID)
	if err != nil {
		return providerID
	}
	return id
}

// change changes instances by do, and answers for each.
func (i *Instances) change(ctx context.Context, providerIDs []string, do func(ctx context.Context, ids []string) error) []error {
	out := make([]error, len(providerIDs))
	var ids []string
	of := make([]string, len(providerIDs))
	for n, p := range providerIDs {
		if of[n], out[n] = providerid.Parse(p); out[n] == nil {
			ids = append(ids, of[n])
		}
	}
	slices.Sort(ids)
	errs := map[string]error{}
	for some := range slices.Chunk(slices.Compact(ids), api.MaxCreateTags) {
		i.changeSome(ctx, some, do, errs)
	}
	for n, id := range of {
		if out[n] == nil {
			out[n] = errs[id]
		}
	}
	return out
}

// changeSome changes instances with one call. EC2 changes none where it does not know one of them, or does not take its ID for one:
// then those that it shows are changed.
func (i *Instances) changeSome(ctx context.Context, ids []string, do func(ctx context.Context, ids []string) error, errs map[string]error) {
	err := do(ctx, ids)
	if kind := cloud.KindOf(err); len(ids) > 1 && (kind == cloud.KindNotFound || kind == cloud.KindInvalid) {
		var shown []string
		if shown, err = i.shown(ctx, ids, errs); err == nil && len(shown) > 0 {
			ids = shown
			err = do(ctx, ids)
		}
	}
	for _, id := range ids {
		if errs[id] == nil {
			errs[id] = err
		}
	}
}

// shown are those of the IDs that EC2 shows; the others get errors.
func (i *Instances) shown(ctx context.Context, ids []string, errs map[string]error) (shown []string, err error) {
	for some := range slices.Chunk(ids, api.MaxFilterValues) {
		found, scope, err := i.c.Instances(ctx, api.Filter("instance-id", some...))
		if err != nil {
			return nil, err
		}
		there := map[string]bool{}
		for n := range found {
			there[aws.ToString(found[n].InstanceId)] = true
		}
		for _, id := range some {
			if there[id] {
				shown = append(shown, id)
			} else {
				errs[id] = absent(target{id: id}, scope)
			}
		}
	}
	return shown, nil
}
