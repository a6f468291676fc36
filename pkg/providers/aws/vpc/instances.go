package vpc

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// instancesAge is the age of the list of instances that is good enough. Where one is asked for that it lacks, that one is read.
const instancesAge = time.Minute

// instances are those that were read, by ID; nil is one that there is not. It is replaced when it is too old, and never edited.
type instances struct {
	mu   sync.Mutex
	byID map[string]*Instance
	read time.Time
}

func (i *instances) get(now time.Time) (map[string]*Instance, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.byID, !i.read.IsZero() && now.Sub(i.read) < instancesAge
}

// replace replaces the list by one that was read from began on.
func (i *instances) replace(all map[string]*Instance, began time.Time) map[string]*Instance {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.byID, i.read = all, began
	return all
}

// add adds to the list.
func (i *instances) add(found map[string]*Instance) map[string]*Instance {
	i.mu.Lock()
	defer i.mu.Unlock()
	next := maps.Clone(i.byID)
	if next == nil {
		next = map[string]*Instance{}
	}
	maps.Copy(next, found)
	i.byID = next
	return next
}

// ForgetInstances has instances read anew, as a load balancer has refused one.
func (n *Network) ForgetInstances() {
	n.instances.mu.Lock()
	defer n.instances.mu.Unlock()
	n.instances.byID, n.instances.read = nil, time.Time{}
}

// Instances are those of members, by the IDs of their instances, from a list that Services share. What is no instance of EC2
// (Fargate), is in another VPC, is not there any more or is terminated is left out. So is what lacks the cluster's tag: a Node may
// name any instance.
func (n *Network) Instances(ctx context.Context, members []cloud.LoadBalancerMember) (map[string]Instance, error) {
	var ids []string
	for _, m := range members {
		if id, err := providerid.Parse(m.Node.ProviderID); err == nil { // others are no instances of EC2's
			ids = append(ids, id)
		}
	}
	p, err := n.place(ctx)
	if err != nil {
		return nil, err
	}
	found, err := n.instancesByID(ctx, ids)
	maps.DeleteFunc(found, func(_ string, i Instance) bool { return i.VPC != p.vpc })
	return found, err
}

func (n *Network) instancesByID(ctx context.Context, ids []string) (map[string]Instance, error) {
	unlock, _, err := n.turns.Lock(ctx, "instances")
	if err != nil {
		return nil, err
	}
	defer unlock()
	began := n.now()
	known, fresh := n.instances.get(began)
	if !fresh {
		found := map[string]*Instance{}
		if cluster := n.cluster(); cluster != "" && len(ids) > 0 {
			if err := n.readInstances(ctx, found, api.Filter("tag-key", tags.Key(cluster))); err != nil {
				return nil, err
			}
		}
		known = n.instances.replace(found, began)
	}
	lacking := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, ok := known[id]; return ok })
	slices.Sort(lacking)
	found := map[string]*Instance{}
	for chunk := range slices.Chunk(slices.Compact(lacking), api.MaxFilterValues) {
		for _, id := range chunk {
			found[id] = nil
		}
		if err := n.readInstances(ctx, found, api.Filter("instance-id", chunk...)); err != nil {
			return nil, err
		}
	}
	if len(found) > 0 {
		known = n.instances.add(found)
	}
	out := make(map[string]Instance, len(ids))
	for _, id := range ids {
		if i := known[id]; i != nil {
			out[id] = *i
		}
	}
	return out, nil
}

// readInstances adds the cluster's instances that pass the filters, but terminated ones. While the cluster is not known, all are its.
func (n *Network) readInstances(ctx context.Context, to map[string]*Instance, filters ...types.Filter) error {
	found, _, err := n.c.Instances(ctx, filters...)
	if err != nil {
		return err
	}
	cluster := n.cluster()
	for _, f := range found {
		if cluster != "" && !tags.Has(f.Tags, cluster) {
			continue
		}
		i := &Instance{ID: aws.ToString(f.InstanceId), VPC: aws.ToString(f.VpcId), SubnetID: aws.ToString(f.SubnetId)}
		if f.Placement != nil {
			i.Zone = aws.ToString(f.Placement.AvailabilityZone)
		}
		if f.State != nil {
			i.State = string(f.State.Name)
		}
		for _, g := range f.SecurityGroups {
			i.Groups = append(i.Groups, aws.ToString(g.GroupId))
		}
		i.PrimaryIPv6 = slices.ContainsFunc(f.NetworkInterfaces, hasPrimaryIPv6)
		if to[i.ID] = i; i.State == string(types.InstanceStateNameTerminated) {
			to[i.ID] = nil
		}
	}
	return nil
}

func hasPrimaryIPv6(n types.InstanceNetworkInterface) bool {
	return slices.ContainsFunc(n.Ipv6Addresses, func(a types.InstanceIpv6Address) bool { return aws.ToBool(a.IsPrimaryIpv6) })
}
