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

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

const (
	// groupsAge is the age of the list of groups that is good enough for a group that is as it shall be.
	groupsAge = 30 * time.Second
	// retryNew is when to come back for a group that EC2 does not know yet, retryInUse for one that is still used.
	retryNew, retryInUse = 2 * time.Second, 10 * time.Second
	// release is how long a load balancer's interfaces have its group at most, and retryStuck when to come back for one that something
	// else has.
	release, retryStuck = 10 * time.Minute, 5 * time.Minute
	// attempts is how often a group is changed that others change, too.
	attempts = 3
)

// groups are the VPC's security groups by ID, not to be edited, with those that were made or changed here since they were read.
type groups map[string]*types.SecurityGroup

// listGroups reads all groups, which are remembered.
func (n *Network) listGroups(ctx context.Context) (groups, error) {
	p, err := n.place(ctx)
	if err != nil {
		return nil, err
	}
	all, err := n.c.SecurityGroups(ctx, api.Filter("vpc-id", p.vpc))
	if err != nil {
		return nil, err
	}
	if len(all) == 0 { // each VPC has its default one: nothing that follows from there being none is true
		return nil, cloud.Errorf(cloud.KindUnknown, "EC2 shows no security group of VPC %s; are the credentials, the region and the VPC the cluster's?", p.vpc)
	}
	byID := make(groups, len(all))
	for i := range all {
		byID[aws.ToString(all[i].GroupId)] = &all[i]
	}
	return byID, nil
}

// putGroup remembers a group as it is by now.
func (n *Network) putGroup(one *types.SecurityGroup) {
	n.groups.Edit(func(all groups) groups {
		all = maps.Clone(all)
		all[aws.ToString(one.GroupId)] = one
		return all
	})
}

// namedGroup is the group of a name, nil for none: 100 Services at once need one list, not 100 reads.
func (n *Network) namedGroup(ctx context.Context, name string) (*types.SecurityGroup, error) {
	all, err := n.groups.Get(ctx, groupsAge, n.listGroups)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if aws.ToString(one.GroupName) == name {
			return one, nil
		}
	}
	return nil, nil
}

// readGroup reads the group of a name, nil for none.
func (n *Network) readGroup(ctx context.Context, name string) (*types.SecurityGroup, error) {
	p, err := n.place(ctx)
	if err != nil {
		return nil, err
	}
	found, err := n.c.SecurityGroups(ctx, api.Filter("group-name", name), api.Filter("vpc-id", p.vpc))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// judge says whose a group with the name of the Service's is.
func (n *Network) judge(ref cloud.LoadBalancerRef, g *types.SecurityGroup) cloud.Ownership {
	m := cloud.Mark{}
	if tags.Owned(g.Tags, n.cluster()) {
		m.ClusterID = n.cluster()
	}
	ref.Cluster.ID = n.cluster()
	return cloud.Judge(m, cloud.Evidence{NameFits: true}, ref)
}

// EnsureGroup makes a load balancer's own security group, and makes what it lets in exactly rules, whatever their descriptions.
// It is found again by its name. One of that name that is not provably this cluster's is KindConflict. While EC2 does not know
// yet what it has made it is KindRetryAfter. changed says what was done to its rules.
func (n *Network) EnsureGroup(ctx context.Context, ref cloud.LoadBalancerRef, g Group, rules []Rule) (id string, changed []string, err error) {
	want := atomsOf(rules)
	for range attempts {
		found, err := n.findOrCreate(ctx, ref, g)
		if err != nil {
			return "", nil, err
		}
		id = aws.ToString(found.GroupId)
		if n.judge(ref, found) != cloud.Ours {
			return "", nil, cloud.Errorf(cloud.KindConflict,
				"security group %s has the name %s of the load balancer's own, but is not the cluster's; give it the tag %s=owned if it is, or delete it",
				id, g.Name, tags.Key(n.cluster()))
		}
		add, drop := difference(atomsIn(found.IpPermissions), want)
		if len(add)+len(drop) == 0 {
			return id, nil, nil
		}
		switch err = n.write(ctx, id, change{add: add, drop: drop}); {
		case err == nil:
			next := *found
			next.IpPermissions = want.permissions()
			n.putGroup(&next)
			return id, changes(id, len(add), len(drop)), nil
		case cloud.IsNotFound(err) && len(found.IpPermissions) == 0: // it was made just now
			return "", nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryNew, Progress: true,
				Err: fmt.Errorf("security group %s is new, and EC2 does not know it everywhere yet: %w", id, err)}
		case cloud.IsNotFound(err), cloud.IsStale(err): // changed by others meanwhile, or the list was too old
			n.groups.Forget()
		default:
			n.groups.Forget() // part of it may have been done
			return "", nil, err
		}
	}
	return "", nil, cloud.Errorf(cloud.KindStale, "security group %s is being changed by somebody else", id)
}

var errHidden = errors.New("EC2 has a security group of that name, but does not show it yet")

// findOrCreate is the group of the name.
func (n *Network) findOrCreate(ctx context.Context, ref cloud.LoadBalancerRef, g Group) (*types.SecurityGroup, error) {
	p, err := n.place(ctx)
	if err != nil {
		return nil, err
	}
	if found, err := n.namedGroup(ctx, g.Name); err != nil || found != nil {
		return found, err
	}
	made := tags.MarkedGroup(tags.New(n.cluster(), n.cfg.KubernetesClusterTag != "", g.Tags), ref.Cluster.UID, ref.Namespace+"/"+ref.Name)
	id, err := n.c.CreateSecurityGroup(ctx, p.vpc, g.Name, g.Description, made)
	if cloud.IsStale(err) {
		if found, err := n.readGroup(ctx, g.Name); err != nil || found != nil {
			return found, err
		}
		return nil, &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryNew, Op: "create security group " + g.Name, Err: errHidden}
	}
	if err != nil {
		return nil, err
	}
	group := &types.SecurityGroup{GroupId: &id, GroupName: &g.Name, Tags: api.Tags(made)}
	n.putGroup(group) // also where its rules cannot be written now: it is found again
	return group, nil
}

// FindGroup returns the ID of the load balancer's own security group of that name, "" where there is none that is provably this
// cluster's.
func (n *Network) FindGroup(ctx context.Context, ref cloud.LoadBalancerRef, name string) (id string, err error) {
	found, err := n.namedGroup(ctx, name)
	if err != nil || found == nil || n.judge(ref, found) != cloud.Ours {
		return "", err
	}
	return aws.ToString(found.GroupId), nil
}

// DeleteGroup deletes the load balancer's own security group of that name. Nil when there is none that is provably this
// cluster's: others' are left alone. It is KindRetryAfter while something uses it: the interfaces of a deleted load balancer
// stay for some minutes. Rules of other groups that name it must be gone before, see DeleteNodeRules.
func (n *Network) DeleteGroup(ctx context.Context, ref cloud.LoadBalancerRef, name string) error {
	id, err := n.FindGroup(ctx, ref, name)
	if err != nil || id == "" {
		return err
	}
	now, err := n.groupNow(ctx, id)
	if err != nil {
		return err
	}
	if now != nil && n.judge(ref, now) != cloud.Ours { // it has changed hands
		n.groups.Forget()
		return nil
	}
	err = n.c.DeleteSecurityGroup(ctx, id)
	if cloud.KindOf(err) == cloud.KindConflict {
		return n.inUse(ctx, id, err)
	}
	if err = cloud.IgnoreNotFound(err); err == nil {
		n.groups.Edit(func(all groups) groups {
			all = maps.Clone(all)
			delete(all, id)
			return all
		})
		n.stuck.Forget(id)
	}
	return err
}

// groupNow is a group as it is now, nil for none, read together with others that are asked about.
func (n *Network) groupNow(ctx context.Context, id string) (*types.SecurityGroup, error) {
	found, err := n.latest.Do(ctx, []string{id}, func(ctx context.Context, ids []string) map[string]cloud.Result[*types.SecurityGroup] {
		out := map[string]cloud.Result[*types.SecurityGroup]{}
		for some := range slices.Chunk(ids, api.MaxFiltered) {
			all, err := n.c.SecurityGroups(ctx, api.Filter("group-id", some...))
			for _, id := range some {
				out[id] = cloud.Result[*types.SecurityGroup]{Err: err}
			}
			for i := range all {
				out[aws.ToString(all[i].GroupId)] = cloud.Result[*types.SecurityGroup]{Value: &all[i], Err: err}
			}
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	return found[id].Value, found[id].Err
}

// inUse is why a group cannot be deleted. The interfaces of its load balancer go by themselves; whoever else has it, such as another
// Service that names it, must give it up, for which it makes no sense to ask often.
func (n *Network) inUse(ctx context.Context, id string, err error) error {
	now := n.now()
	since, waits := n.stuck.Get(id, now)
	if !waits {
		since = now
	}
	n.stuck.Put(id, since, now, now.Add(time.Hour))
	out := &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: retryInUse, Op: "delete security group " + id}
	if now.Sub(since) >= release {
		out.RetryAfter = retryStuck
	}
	out.Err = fmt.Errorf("it is still in use%s: a load balancer's network interfaces stay for some minutes; anything else must give it up: %w",
		n.users(ctx, id), err)
	return out
}
