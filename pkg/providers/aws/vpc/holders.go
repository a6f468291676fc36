package vpc

import (
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
// stay for some minutes when they are gone. Who may not ask takes all for held.
func (n *Network) held(ctx context.Context, ids []string) (map[string]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	interfaces, err := n.c.InterfacesIn(ctx, ids)
	held := map[string]bool{}
	if cloud.KindOf(err) == cloud.KindDenied {
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
	return held, err
}

// isClassic reports whether an interface is a classic load balancer's. Those of others have a path in their description.
func isClassic(i *types.NetworkInterface) bool {
	name, of := strings.CutPrefix(aws.ToString(i.Description), api.InterfaceOf)
	return of && aws.ToBool(i.RequesterManaged) && !strings.Contains(name, "/")
}
