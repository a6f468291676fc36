package loadbalancers

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

var _ cloud.Inventory = (*LoadBalancers)(nil)

// Owned implements cloud.Inventory. Objects that name no Service are others', as that for the guest cluster's API server, which has the
// same owner.
func (b *LoadBalancers) Owned(ctx context.Context, cluster cloud.Cluster) ([]cloud.Owned, error) {
	all, err := b.c.List(ctx, b.resource, nil)
	if err != nil {
		return nil, err
	}
	var out []cloud.Owned
	for n := range all {
		_, o, err := b.owned(&all[n], cluster)
		if err != nil {
			return nil, err
		}
		if o != nil {
			out = append(out, *o)
		}
	}
	slices.SortFunc(out, func(x, y cloud.Owned) int { return cmp.Compare(x.ID, y.ID) })
	return out, nil
}

// owned is what an object is to its cluster, nil where it does not carry the cluster's mark. One mark of another cluster is enough for
// that.
func (b *LoadBalancers) owned(obj *unstructured.Unstructured, cluster cloud.Cluster) (*found, *cloud.Owned, error) {
	f, err := b.read(obj, cloud.LoadBalancerRef{Cluster: cluster, Namespace: obj.GetLabels()[labelNamespace], Name: obj.GetLabels()[labelName]})
	if err != nil {
		return nil, nil, err
	}
	if f.whose != cloud.Ours || f.Labels[labelName] == "" || f.Labels[labelNamespace] == "" {
		return f, nil, nil
	}
	o := &cloud.Owned{Kind: b.resource.Kind, ID: f.Namespace + "/" + f.Name, Name: f.Name, Created: f.CreationTimestamp.Time,
		Mark: cloud.Mark{ClusterUID: f.Labels[labelClusterUID], ClusterID: b.c.ClusterOf(f.OwnerReferences), Service: f.Labels[labelNamespace] + "/" + f.Labels[labelName]}}
	if f.DeletionTimestamp != nil {
		o.State = "being deleted"
	}
	for _, in := range f.Status.LoadBalancer.Ingress {
		if a := cmp.Or(in.IP, in.Hostname); a != "" {
			o.Addresses = append(o.Addresses, a)
		}
	}
	return f, o, nil
}

// Remove implements cloud.Inventory.
func (b *LoadBalancers) Remove(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) error {
	obj, err := b.c.Get(ctx, b.resource, o.Name)
	if err != nil {
		return cloud.IgnoreNotFound(err)
	}
	f, now, err := b.owned(obj, cluster)
	if err != nil {
		return err
	}
	if now == nil || o.Kind != now.Kind || o.ID != now.ID || o.Mark != now.Mark || !o.Created.Equal(now.Created) {
		return cloud.Errorf(cloud.KindConflict, "%s is not what it was: its labels are %q now, and it is of %s", b.c.Name(b.resource, o.Name), f.Labels, f.CreationTimestamp)
	}
	return b.remove(ctx, f)
}
