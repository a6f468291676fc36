package instances

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// labelZoneID is the label of the zone's ID, which is the same in all accounts, as its name is not.
	labelZoneID = "topology.k8s.aws/zone-id"
	// labelLayer begins the labels of what is above an instance in the network, the farthest first, from 1.
	labelLayer = "topology.k8s.aws/network-node-layer-"
	// zonesMaxAge is the age of the zones' IDs that is good enough: they stay.
	zonesMaxAge = 24 * time.Hour
)

// stateOf is an instance's state, "" where the answer has none, which says nothing.
func stateOf(f *api.Instance) types.InstanceStateName {
	if f.State == nil {
		return ""
	}
	return f.State.Name
}

// alive is the instance, with an error where it is terminated: EC2 shows it for an hour, but it never comes back.
func alive(t target, f *api.Instance) (*api.Instance, error) {
	switch stateOf(f) {
	case types.InstanceStateNameTerminated:
		return f, &cloud.Error{Kind: cloud.KindNotFound, Scope: f.Scope, Ended: true, Err: fmt.Errorf("instance %s is terminated", t)}
	case "":
		return nil, cloud.Errorf(cloud.KindUnknown, "EC2 does not say in which state instance %s is", t)
	}
	return f, nil
}

// build makes what Nodes get of the instances that were found, by ID.
func (i *Instances) build(ctx context.Context, found map[target]cloud.Result[*api.Instance]) map[string]cloud.Result[*cloud.Instance] {
	byID := map[string]*api.Instance{}
	for _, r := range found {
		if r.Err == nil {
			byID[aws.ToString(r.Value.InstanceId)] = r.Value
		}
	}
	out := make(map[string]cloud.Result[*cloud.Instance], len(byID))
	if len(byID) == 0 {
		return out
	}
	region, err := i.c.Region(ctx)
	layers, failed := i.topology.layers(ctx, byID)
	zones := i.zoneIDs(ctx, byID)
	for id, f := range byID {
		if err := first(failed[id], err); err != nil {
			out[id] = cloud.Result[*cloud.Instance]{Err: err}
			continue
		}
		out[id] = cloud.Result[*cloud.Instance]{Value: i.instance(f, region, labels(zones[id], layers[id]))}
	}
	return out
}

func (i *Instances) instance(f *api.Instance, region string, labels map[string]string) *cloud.Instance {
	id, zone := aws.ToString(f.InstanceId), zoneOf(f)
	return &cloud.Instance{
		ProviderID: providerid.Format(zone, id),
		Name:       cmp.Or(aws.ToString(f.PrivateDnsName), id),
		Type:       text.LabelValue(string(f.InstanceType)),
		Zone:       zone,
		Region:     region,
		Addresses:  nodeAddresses(&f.Instance, i.cfg.NodeIPFamilies),
		Labels:     labels,
		Marked:     tags.Has(f.Tags, i.cluster()),
		Scope:      f.Scope,
		Shutdown:   stateOf(f) == types.InstanceStateNameStopped,
	}
}

func zoneOf(f *api.Instance) string {
	if f.Placement == nil {
		return ""
	}
	return aws.ToString(f.Placement.AvailabilityZone)
}

// labels are the additional labels of a Node.
func labels(zoneID string, layers []string) map[string]string {
	out := map[string]string{}
	if zoneID != "" {
		out[labelZoneID] = zoneID
	}
	for n, node := range layers {
		out[labelLayer+strconv.Itoa(n+1)] = node
	}
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" || text.LabelValue(v) != v })
	if len(out) == 0 {
		return nil
	}
	return out
}

// zoneIDs are the IDs of the instances' zones, by the instances' IDs. EC2 says it with each instance; only where it does
// not, the zones are read. Where that fails, the label is left out.
func (i *Instances) zoneIDs(ctx context.Context, byID map[string]*api.Instance) map[string]string {
	out := make(map[string]string, len(byID))
	for id, f := range byID {
		if f.Placement == nil {
			continue
		}
		if zone := aws.ToString(f.Placement.AvailabilityZoneId); zone != "" {
			out[id] = zone
			continue
		}
		ids, err := i.zones.Get(ctx, zonesMaxAge, i.c.ZoneIDs)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("The IDs of the zones are not known, so Nodes do not get the label", "label", labelZoneID, "reason", err.Error())
			return out
		}
		out[id] = ids[zoneOf(f)]
	}
	return out
}

// first is the first error that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
