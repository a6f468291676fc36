package instances

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// Instances answers for EC2's instances.
//
// Find reads up to 200 of them with one call each for those by ID and those by name, by a filter, which passes over what there
// is not. More it takes from the list of all that have the cluster's tag, a thousand a call, and looks for the rest as before.
//
// A Node without a provider ID is looked up by the ID that its name begins with (i-…), else by its name as the private DNS name
// of an instance that has the cluster's tag, and where there is none by its address: that which its kubelet was given (--node-ip),
// or which its name has (ip-10-0-0-1). Two are KindConflict: none is picked.
type Instances struct {
	c   *api.Client
	cfg *config.Global
	// cluster is the ID in the cluster's tag, "" while it is not known.
	cluster func() string
	// vpc is the ID of the cluster's VPC.
	vpc      func(context.Context) (string, error)
	topology topology
	zones    inventory.Value[map[string]string] // IDs by names
}

var _ cloud.Instances = (*Instances)(nil)

// New makes the instances of the client's region. cluster is the ID in the cluster's tag, "" while it is not known, and vpc the
// cluster's VPC.
func New(c *api.Client, cfg *config.Global, cluster func() string, vpc func(context.Context) (string, error)) *Instances {
	i := &Instances{c: c, cfg: cfg, cluster: cluster, vpc: vpc, topology: topology{read: c.NetworkNodes, known: cfg.HasTopology}}
	i.zones.Read = c.Keep("zones")
	return i
}

// Find implements cloud.Instances.
func (i *Instances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	of := make([]target, len(refs))
	w := wanted{}
	for n, ref := range refs {
		if of[n], out[n].Err = targetOf(ref); out[n].Err == nil {
			w[of[n]] = true
		}
	}
	found := i.search(ctx, w)
	built := i.build(ctx, found)
	for n := range refs {
		switch r := found[of[n]]; {
		case out[n].Err != nil:
		case r.Err != nil:
			out[n].Err = r.Err
		default:
			out[n] = built[aws.ToString(r.Value.InstanceId)]
		}
	}
	return out
}

// Get implements cloud.Instances.
func (i *Instances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	t, err := targetOf(ref)
	if err != nil {
		return nil, err
	}
	var found *api.Instance
	if t.id != "" {
		found, err = i.c.Instance(ctx, t.id)
	} else {
		found, err = i.named(ctx, t)
	}
	if err == nil {
		found, err = alive(t, found)
	}
	if err != nil {
		return nil, err
	}
	r := i.build(ctx, map[target]cloud.Result[*api.Instance]{t: {Value: found}})[aws.ToString(found.InstanceId)]
	return r.Value, r.Err
}

// search answers every target. KindNotFound only means "not in what was read".
func (i *Instances) search(ctx context.Context, w wanted) map[target]cloud.Result[*api.Instance] {
	out := make(map[target]cloud.Result[*api.Instance], len(w))
	cluster := i.cluster()
	if cluster != "" && len(w) > api.MaxFilterValues {
		all, _, err := i.c.Instances(ctx, api.Filter("tag-key", tags.Key(cluster)))
		if err != nil {
			for t := range w {
				out[t] = cloud.Result[*api.Instance]{Err: err}
			}
			return out
		}
		for _, by := range []form{byID, byName} {
			i.match(all, by, w, out)
		}
	}
	i.ask(ctx, byID, w.without(out), out)
	i.ask(ctx, byName, w.without(out), out, living())
	if cluster != "" { // others' VPCs may have the same addresses
		missing := wanted{}
		for t := range w {
			if t.ip.IsValid() && cloud.IsNotFound(out[t].Err) {
				missing[t] = true
			}
		}
		i.ask(ctx, byIP, missing, out, living(), api.Filter("tag-key", tags.Keys(cluster)...))
	}
	return out
}

// ask answers those of the targets that have the form by filters: 200 values in all a call, beside which more stand.
func (i *Instances) ask(ctx context.Context, by form, w wanted, out map[target]cloud.Result[*api.Instance], more ...types.Filter) {
	room := api.MaxFilterValues
	for _, f := range more {
		room -= len(f.Values)
	}
	values := w.values(by)
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(values)), room) {
		some := wanted{}
		for _, v := range chunk {
			for _, t := range values[v] {
				some[t] = true
			}
		}
		found, scope, err := i.c.Instances(ctx, append([]types.Filter{api.Filter(by.filter, chunk...)}, more...)...)
		if err == nil {
			i.match(found, by, some, out)
		}
		for t := range some {
			switch _, answered := out[t]; {
			case err != nil:
				out[t] = cloud.Result[*api.Instance]{Err: err}
			case !answered:
				out[t] = cloud.Result[*api.Instance]{Err: absent(t, scope)}
			}
		}
	}
}

// living passes over instances that are terminated, as their names may be others' by now.
func living() types.Filter {
	return api.Filter("instance-state-name", string(types.InstanceStateNamePending), string(types.InstanceStateNameRunning),
		string(types.InstanceStateNameShuttingDown), string(types.InstanceStateNameStopping), string(types.InstanceStateNameStopped))
}

func absent(t target, scope string) error {
	return &cloud.Error{Kind: cloud.KindNotFound, Scope: scope, Err: cloud.Errorf(cloud.KindNotFound, "there is no instance %s", t)}
}

// match answers the targets that are among the instances.
func (i *Instances) match(found []api.Instance, by form, w wanted, out map[target]cloud.Result[*api.Instance]) {
	values := w.values(by)
	candidates := map[string][]*api.Instance{}
	for n := range found {
		f := &found[n]
		v := by.of(f)
		for _, t := range values[v] {
			if t.id != "" {
				f, err := alive(t, f)
				out[t] = cloud.Result[*api.Instance]{Value: f, Err: err}
			}
		}
		if by.filter != byID.filter && stateOf(f) != types.InstanceStateNameTerminated {
			candidates[v] = append(candidates[v], f)
		}
	}
	for v, all := range values {
		if len(candidates[v]) == 0 {
			continue
		}
		f, err := i.theOne(by.what+" "+v, candidates[v])
		for _, t := range all {
			out[t] = cloud.Result[*api.Instance]{Value: f, Err: err}
		}
	}
}

// theOne picks the instance that has what: another VPC's may have it, too. There is a candidate at least.
func (i *Instances) theOne(what string, candidates []*api.Instance) (*api.Instance, error) {
	cluster := i.cluster()
	ours := slices.DeleteFunc(slices.Clone(candidates), func(f *api.Instance) bool { return cluster != "" && !tags.Has(f.Tags, cluster) })
	inOrder := func(a, b *api.Instance) int {
		return cmp.Compare(aws.ToString(a.InstanceId), aws.ToString(b.InstanceId))
	}
	slices.SortFunc(ours, inOrder)
	ours = slices.CompactFunc(ours, func(a, b *api.Instance) bool { return inOrder(a, b) == 0 }) // pages may overlap
	switch len(ours) {
	case 0:
		return nil, cloud.Errorf(cloud.KindConflict, "instance %s has %s, but not the tag %s; tag it, or give the Node its provider ID (kubelet --provider-id)",
			aws.ToString(candidates[0].InstanceId), what, tags.Key(cluster))
	case 1:
		return ours[0], nil
	}
	return nil, cloud.Errorf(cloud.KindConflict, "%d instances have %s (%s and %s); give the Node its provider ID (kubelet --provider-id)",
		len(ours), what, aws.ToString(ours[0].InstanceId), aws.ToString(ours[1].InstanceId))
}

// named reads the instance of a Node without its ID. That there is none is weak evidence: other credentials see another account's
// instances, or none. So it counts only where there are some of the cluster's.
func (i *Instances) named(ctx context.Context, t target) (*api.Instance, error) {
	r := i.search(ctx, wanted{t: true})[t]
	if !cloud.IsNotFound(r.Err) {
		return r.Value, r.Err
	}
	var filters []types.Filter
	if cluster := i.cluster(); cluster != "" {
		filters = append(filters, api.Filter("tag-key", tags.Key(cluster)))
	}
	some, scope, err := i.c.Some(ctx, append(filters, living())...)
	switch {
	case err != nil:
		return nil, err
	case len(some) == 0:
		return nil, cloud.Errorf(cloud.KindUnknown, "there is no instance %s, and none of the cluster at all in %s; are the credentials and the region the cluster's?", t, scope)
	}
	return nil, absent(t, scope)
}
