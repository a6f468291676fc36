package vpc

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/joint"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
)

// formers are the groups of which tenants say that they do not need them any more, and which groups of the cluster let in.
func formers(all []joint.Tenant[NodeRules], groups map[string]*types.SecurityGroup) []string {
	asked, found := map[atom]bool{}, map[string]bool{}
	for _, t := range all {
		if t.Desired.SharedFormer != "" {
			asked[fromGroup(t.Desired.SharedFormer)] = true
		}
	}
	if len(asked) == 0 {
		return nil
	}
	for _, g := range groups {
		for a := range atomsIn(g.IpPermissions) {
			if asked[a] {
				found[a.source] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// held are those of the groups that something in the VPC has, beside classic load balancers: of those callers know, and their interfaces
// stay for some minutes when they are gone. Whoever gets no answer takes all for held.
func (n *Network) held(ctx context.Context, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	interfaces, err := n.c.InterfacesIn(ctx, ids)
	held := map[string]bool{}
	switch {
	case cloud.KindOf(err) == cloud.KindThrottled, cloud.KindOf(err) == cloud.KindUnavailable:
		return nil, err
	case err != nil:
		for _, id := range ids {
			held[id] = true
		}
		return held, nil
	}
	for i := range interfaces {
		if isClassic(&interfaces[i]) {
			continue
		}
		for _, g := range interfaces[i].Groups {
			held[aws.ToString(g.GroupId)] = true
		}
	}
	return held, nil
}

// users says what has a group, as far as that may be seen, "" for nothing.
func (n *Network) users(ctx context.Context, id string) string {
	all, err := n.having.Do(ctx, []string{id}, func(ctx context.Context, ids []string) map[string][]types.NetworkInterface {
		out := map[string][]types.NetworkInterface{}
		found, _ := n.c.InterfacesIn(ctx, ids) // where it fails, nothing is said
		for _, i := range found {
			for _, g := range i.Groups {
				out[aws.ToString(g.GroupId)] = append(out[aws.ToString(g.GroupId)], i)
			}
		}
		return out
	})
	if err != nil {
		return ""
	}
	var users []string
	for _, i := range all[id] {
		users = append(users, aws.ToString(i.NetworkInterfaceId)+" ("+cmp.Or(aws.ToString(i.Description), "without a description")+")")
	}
	for g, one := range n.groups.Known() {
		for a := range atomsIn(one.IpPermissions) {
			if a.source == id && g != id && !slices.Contains(users, "rules of "+g) {
				users = append(users, "rules of "+g)
			}
		}
	}
	slices.Sort(users)
	if len(users) > maxUsers {
		users = append(users[:maxUsers], "others")
	}
	if len(users) == 0 {
		return ""
	}
	return ", by " + strings.Join(users, ", ")
}

// maxUsers is how many users of a group are named.
const maxUsers = 3

// isClassic reports whether an interface is a classic load balancer's. Those of others have a path in their description.
func isClassic(i *types.NetworkInterface) bool {
	name, of := strings.CutPrefix(aws.ToString(i.Description), api.InterfaceOf)
	return of && aws.ToBool(i.RequesterManaged) && !strings.Contains(name, "/")
}
