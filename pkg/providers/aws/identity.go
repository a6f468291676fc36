package aws

import (
	"context"
	"sync/atomic"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// identity is which cluster it is, by its ID in tags: as cloud.conf says, else as the tags of the instance do that this machine
// is.
type identity struct {
	c  *api.Client
	id atomic.Pointer[string]
}

func newIdentity(c *api.Client, cfg *config.Global) *identity {
	i := &identity{c: c}
	if id := cfg.ClusterID(); id != "" {
		i.id.Store(&id)
	}
	return i
}

// cluster is the ID, "" while it is not known.
func (i *identity) cluster() string {
	if id := i.id.Load(); id != nil {
		return *id
	}
	return ""
}

// identify implements cloud.Provider.Identify.
func (i *identity) identify(ctx context.Context, _ cloud.Cluster) (string, error) {
	if id := i.cluster(); id != "" {
		return id, nil
	}
	const op, hint = "find the cluster's ID", "set KubernetesClusterID in [Global] of cloud.conf"
	self, err := i.c.Self(ctx, hint)
	if err != nil {
		return "", &cloud.Error{Kind: cloud.KindOf(err), Op: op, Err: err}
	}
	instance, err := i.c.Instance(ctx, self)
	if err != nil {
		return "", &cloud.Error{Kind: cloud.KindOf(err), Op: op, Err: err}
	}
	id, err := tags.ClusterOf(instance.Tags)
	if err != nil {
		return "", &cloud.Error{Kind: cloud.KindInvalid, Op: op,
			Err: cloud.Errorf(cloud.KindInvalid, "instance %s, which this machine is, does not tell: %w; %s, or correct the tags", self, err, hint)}
	}
	klog.FromContext(ctx).Info("The cluster is the one in the tags of this machine's instance", "clusterID", id, "instance", self)
	i.id.Store(&id)
	return id, nil
}
