package instances

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// TagsLabel is the Node label of which tags its instance has got, as the existing manager writes it.
const TagsLabel = "k8s.io/cloud-provider-aws"

var _ cloud.InstanceTags = (*Instances)(nil)

// Tag implements cloud.InstanceTags with a call for a thousand instances, after those that read them.
func (i *Instances) Tag(ctx context.Context, providerIDs []string, set map[string]string) []error {
	return i.change(ctx, providerIDs, func(ctx context.Context, ids []string) error { return i.c.CreateTags(ctx, ids, set) })
}

// Untag implements cloud.InstanceTags as Tag does.
func (i *Instances) Untag(ctx context.Context, providerIDs []string, set map[string]string) []error {
	return i.change(ctx, providerIDs, func(ctx context.Context, ids []string) error { return i.c.DeleteTags(ctx, ids, set) })
}

// InstanceOf implements cloud.InstanceTags.
func (i *Instances) InstanceOf(providerID string) string {
	id, err := providerid.Parse(providerID)
	if err != nil {
		return providerID
	}
	return id
}

// change changes instances by do, a thousand with one call, and answers for each. It reads them before: one that EC2 does not show
// would keep the others from it, and a Node may name any instance, so that what is not the cluster's is left alone.
func (i *Instances) change(ctx context.Context, providerIDs []string, do func(ctx context.Context, ids []string) error) []error {
	out := make([]error, len(providerIDs))
	of, w := make([]target, len(providerIDs)), wanted{}
	for n, p := range providerIDs {
		if of[n].id, out[n] = providerid.Parse(p); out[n] == nil {
			w[of[n]] = true
		}
	}
	found := i.search(ctx, w)
	errs := map[target]error{}
	var ids []string
	for t := range w {
		if errs[t] = found[t].Err; errs[t] == nil || cloud.IsEnded(errs[t]) { // it has its tags as long as EC2 shows it
			errs[t] = i.mayTag(ctx, found[t].Value)
		}
		if errs[t] == nil {
			ids = append(ids, t.id)
		}
	}
	slices.Sort(ids)
	for some := range slices.Chunk(ids, api.MaxCreateTags) {
		err := do(ctx, some)
		for _, id := range some {
			errs[target{id: id}] = err
		}
	}
	for n, t := range of {
		if out[n] == nil {
			out[n] = errs[t]
		}
	}
	return out
}

// mayTag reports why an instance gets no tags: it is neither the cluster's by its tags, nor one in the cluster's VPC that has no
// cluster yet.
func (i *Instances) mayTag(ctx context.Context, f *api.Instance) error {
	cluster, id := i.cluster(), aws.ToString(f.InstanceId)
	if cluster == "" || tags.Has(f.Tags, cluster) {
		return nil
	}
	if !tags.Free(f.Tags) {
		return cloud.Errorf(cloud.KindConflict, "instance %s has another cluster's tag, and not %s", id, tags.Key(cluster))
	}
	own, err := i.vpc(ctx)
	if err != nil {
		return fmt.Errorf("instance %s lacks the tag %s, and it is not known whether it is in the cluster's VPC: %w", id, tags.Key(cluster), err)
	}
	if in := aws.ToString(f.VpcId); in != own {
		return cloud.Errorf(cloud.KindConflict, "instance %s lacks the tag %s, and is in VPC %s, not in the cluster's, %s", id, tags.Key(cluster), in, own)
	}
	return nil
}
