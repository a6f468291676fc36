package routes

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// machineMaxAge is how long it is believed what a list needs to know of an instance: its zone stays, its tag mostly.
const machineMaxAge = 10 * time.Minute

// machine is what routes need to know of an instance.
type machine struct {
	id string
	// target is its provider ID, as its Node has it.
	target string
	// marked says that it has the cluster's tag.
	marked     bool
	state      types.InstanceStateName
	interfaces []string
	// primary is the interface that routes lead to, "" for none; checked says that it drops what is not for its own addresses.
	primary string
	checked bool
}

func (r *Routes) machineOf(f *api.Instance) *machine {
	m := &machine{id: aws.ToString(f.InstanceId), marked: tags.Has(f.Tags, r.cluster())}
	if f.State != nil {
		m.state = f.State.Name
	}
	zone := ""
	if f.Placement != nil {
		zone = aws.ToString(f.Placement.AvailabilityZone)
	}
	m.target = providerid.Format(zone, m.id)
	for _, n := range f.NetworkInterfaces {
		m.interfaces = append(m.interfaces, aws.ToString(n.NetworkInterfaceId))
		if a := n.Attachment; a != nil && aws.ToInt32(a.DeviceIndex) == 0 && aws.ToInt32(a.NetworkCardIndex) == 0 {
			m.primary, m.checked = aws.ToString(n.NetworkInterfaceId), aws.ToBool(n.SourceDestCheck)
		}
	}
	return m
}

// isThere reports whether the instance is one that routes may lead to.
func (m *machine) isThere() bool {
	return m.state != types.InstanceStateNameTerminated && m.state != types.InstanceStateNameShuttingDown
}

// takes reports whether the entry leads to the instance. One that is stopped takes nothing now, but is not gone.
func (m *machine) takes(e entry) bool {
	stopped := m.state == types.InstanceStateNameStopped || m.state == types.InstanceStateNameStopping
	return m.isThere() && (!e.blackhole || stopped) && (e.networkInterface == "" || slices.Contains(m.interfaces, e.networkInterface))
}

// hop is where a route to the instance leads in AWS, which wants an interface's name where there are several.
func (m *machine) hop() api.Hop {
	if len(m.interfaces) > 1 {
		return api.Hop{Interface: m.primary}
	}
	return api.Hop{Instance: m.id}
}

// known are the machines that the entries lead to, by their IDs. Those that EC2 does not show are missing. What leads nowhere
// is looked at anew.
func (r *Routes) known(ctx context.Context, entries []entry) (map[string]*machine, error) {
	out, ask := map[string]*machine{}, map[string]bool{}
	for _, e := range entries {
		if e.instance == "" {
			continue
		}
		m, ok := r.memory.Get(e.instance, r.now())
		if ok && !e.blackhole {
			out[e.instance] = m
		} else {
			ask[e.instance] = true
		}
	}
	fresh, err := r.read(ctx, ask)
	maps.Copy(out, fresh)
	return out, err
}

// read reads instances with 200 a call, by a filter, which passes over what there is not. Where there are more, most are in the list of
// the cluster's, a thousand a call.
func (r *Routes) read(ctx context.Context, ids map[string]bool) (map[string]*machine, error) {
	out := map[string]*machine{}
	if cluster := r.cluster(); cluster != "" && len(ids) > api.MaxFilterValues {
		if err := r.readBy(ctx, api.Filter("tag-key", tags.Key(cluster)), ids, out); err != nil {
			return nil, err
		}
	}
	lacking := slices.DeleteFunc(slices.Sorted(maps.Keys(ids)), func(id string) bool { return out[id] != nil })
	for some := range slices.Chunk(lacking, api.MaxFilterValues) {
		if err := r.readBy(ctx, api.Filter("instance-id", some...), ids, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readBy adds those of the instances to out that pass a filter.
func (r *Routes) readBy(ctx context.Context, filter types.Filter, ids map[string]bool, out map[string]*machine) error {
	found, _, err := r.c.Instances(ctx, filter)
	if err != nil {
		return err
	}
	for n := range found {
		m := r.machineOf(&found[n])
		if !ids[m.id] {
			continue
		}
		if old, ok := r.memory.Get(m.id, r.now()); ok {
			m.target = old.target
		}
		r.remember(m)
		out[m.id] = m
	}
	return nil
}

func (r *Routes) remember(m *machine) {
	now := r.now()
	r.memory.Put(m.id, m, now, now.Add(machineMaxAge))
}

// spell remembers how the instance's Node writes its provider ID, so that List says it in the same way.
func (r *Routes) spell(m *machine, target string) {
	if m.target != target {
		next := *m
		next.target = target
		r.remember(&next)
	}
}

// instanceOf is the ID of the instance that a route is to lead to.
func instanceOf(route cloud.Route) (string, error) {
	if !route.Destination.IsValid() || route.Target == "" {
		return "", cloud.Errorf(cloud.KindInvalid, "route to %s via %s: a destination and the provider ID of an instance are both needed", route.Destination, route.Hop())
	}
	return providerid.Parse(route.Target)
}
