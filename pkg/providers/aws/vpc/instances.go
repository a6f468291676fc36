package vpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/batcher"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

const (
	// instancesAge is the age of the list of instances that is good enough. Where one is asked for that it lacks, that one is read.
	instancesAge = time.Minute
	// absentAge is for how long it is believed that EC2 does not show an instance, and newborn for how long it may not show one that it
	// has made, or that is about to get its tags.
	absentAge, newborn = 5 * time.Second, 10 * time.Minute
	// absenceKept is for how long it is known since when one is absent that nobody asks for.
	absenceKept = time.Hour
)

// instances are the cluster's, as they were read, terminated ones too.
type instances struct {
	list inventory.Value[map[string]*Instance] // by ID
	byID *batcher.Batcher[string, cloud.Result[*Instance]]
	// absences are those of instances that were asked for.
	absences inventory.Memory[string, absence]
}

// absence is since when EC2 does not show an instance, and when that was seen last.
type absence struct{ since, seen time.Time }

// ForgetInstances has instances read anew that a load balancer has refused.
func (n *Network) ForgetInstances(ids ...string) {
	n.instances.list.Edit(func(all map[string]*Instance) map[string]*Instance {
		all = maps.Clone(all)
		for _, id := range ids {
			delete(all, id)
		}
		return all
	})
}

// Instances are those of members, by the IDs of their instances, from a list that Services share. What is no instance of EC2
// (Fargate), is in another VPC, is not there any more or is terminated is left out. So is what lacks the cluster's tag: a Node may
// name any instance. later is why to come back, KindRetryAfter: EC2 may show one only after a while.
func (n *Network) Instances(ctx context.Context, members []cloud.LoadBalancerMember) (found map[string]Instance, later, err error) {
	var ids []string
	for _, m := range members {
		if id, err := providerid.Parse(m.Node.ProviderID); err == nil { // others are no instances of EC2's
			ids = append(ids, id)
		}
	}
	p, err := n.place(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err = n.instancesByID(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	now := n.now()
	for _, id := range ids {
		if a, absent := n.instances.absences.Get(id, now); absent && now.Sub(a.since) < newborn && later == nil {
			later = &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: absentAge, Err: fmt.Errorf(
				"EC2 shows no instance %s, which is a Node's, with the tag %s: it gets no traffic until it does", id, tags.Key(n.cluster()))}
		}
	}
	maps.DeleteFunc(found, func(_ string, i Instance) bool { return i.VPC != p.vpc })
	return found, later, nil
}

// instancesByID are those of the instances that are the cluster's and not terminated.
func (n *Network) instancesByID(ctx context.Context, ids []string) (map[string]Instance, error) {
	out := make(map[string]Instance, len(ids))
	if len(ids) == 0 {
		return out, nil
	}
	known, err := n.instances.list.Get(ctx, instancesAge, func(ctx context.Context) (map[string]*Instance, error) {
		cluster := n.cluster()
		if cluster == "" {
			return map[string]*Instance{}, nil
		}
		return n.readInstances(ctx, api.Filter("tag-key", tags.Key(cluster)))
	})
	if err != nil {
		return nil, err
	}
	var lacking []string
	now := n.now()
	for _, id := range ids {
		if known[id] != nil {
			n.instances.absences.Forget(id)
		} else if a, ok := n.instances.absences.Get(id, now); !ok || now.Sub(a.seen) >= absentAge {
			lacking = append(lacking, id)
		}
	}
	more, err := n.lacking(ctx, lacking)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		i := known[id]
		if i == nil {
			i = more[id]
		}
		if i != nil && i.State != string(types.InstanceStateNameTerminated) {
			out[id] = *i
		}
	}
	return out, nil
}

var errLeft = errors.New("the instance was not read")

// lacking reads instances that the list lacks, with those of others who ask meanwhile.
func (n *Network) lacking(ctx context.Context, ids []string) (map[string]*Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	results, err := n.instances.byID.Do(ctx, ids, n.readByID)
	if err != nil {
		return nil, err
	}
	out, now := map[string]*Instance{}, n.now()
	for _, id := range ids {
		r, ok := results[id]
		if !ok {
			r.Err = &cloud.Error{Kind: cloud.KindUnavailable, Op: "get instance " + id, Err: errLeft}
		}
		if r.Err != nil {
			return nil, r.Err
		}
		if out[id] = r.Value; r.Value != nil {
			n.instances.absences.Forget(id)
			continue
		}
		a, known := n.instances.absences.Get(id, now)
		if a.seen = now; !known {
			a.since = now
		}
		n.instances.absences.Put(id, a, now, now.Add(absenceKept))
	}
	return out, nil
}

// readByID reads instances, by a filter, which passes over what there is not, and adds them to the list.
func (n *Network) readByID(ctx context.Context, ids []string) map[string]cloud.Result[*Instance] {
	out, known, read := make(map[string]cloud.Result[*Instance], len(ids)), n.instances.list.Known(), map[string]*Instance{}
	slices.Sort(ids)
	for _, id := range ids {
		out[id] = cloud.Result[*Instance]{Value: known[id]}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return known[id] != nil }) // it was read for others
	for chunk := range slices.Chunk(ids, api.MaxFilterValues) {
		found, err := n.readInstances(ctx, api.Filter("instance-id", chunk...))
		maps.Copy(read, found)
		for _, id := range chunk {
			out[id] = cloud.Result[*Instance]{Value: found[id], Err: err}
		}
	}
	n.instances.list.Edit(func(all map[string]*Instance) map[string]*Instance {
		all = maps.Clone(all)
		maps.Copy(all, read)
		return all
	})
	return out
}

// readInstances are the cluster's instances that pass the filters. While the cluster is not known, all are its.
func (n *Network) readInstances(ctx context.Context, filters ...types.Filter) (map[string]*Instance, error) {
	found, _, err := n.c.Instances(ctx, filters...)
	if err != nil {
		return nil, err
	}
	out, cluster := make(map[string]*Instance, len(found)), n.cluster()
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
		out[i.ID] = i
	}
	return out, nil
}

func hasPrimaryIPv6(n types.InstanceNetworkInterface) bool {
	return slices.ContainsFunc(n.Ipv6Addresses, func(a types.InstanceIpv6Address) bool { return aws.ToBool(a.IsPrimaryIpv6) })
}
