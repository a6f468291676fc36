package instances

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/inventory"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/providers/aws/tags"
)

// Instances answers for EC2's instances.
//
// Find reads up to 200 of them with one call each for those by ID and those by name, by a filter, which passes over what there
// is not. More it takes from the list of all that have the cluster's tag, a thousand a call, and looks for the rest as before.
//
// A Node without a provider ID is looked up by the ID that its name begins with (i-…), else by its name as the private DNS name
// of an instance that has the cluster's tag. Two of that name are KindConflict: none is picked.
type Instances struct {
	c   *api.Client
	cfg *config.Global
	// cluster is the ID in the cluster's tag, "" while it is not known.
	cluster  func() string
	topology topology
	zones    inventory.Value[map[string]string] // IDs by names
}

var _ cloud.Instances = (*Instances)(nil)

// New makes the instances of the client's region. cluster is the ID in the cluster's tag, "" while it is not known.
func New(c *api.Client, cfg *config.Global, cluster func() string) *Instances {
	return &Instances{c: c, cfg: cfg, cluster: cluster, topology: topology{read: c.NetworkNodes, known: cfg.HasTopology}}
}

// Find implements cloud.Instances.
func (i *Instances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	of := make([]target, len(refs))
	w := wanted{}
	for n, ref := range refs {
		if of[n], out[n].Err = targetOf(ref); out[n].Err == nil {
			w.add(of[n])
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
		found, err = i.byName(ctx, t)
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

// target is what a ref is looked up by: an instance's ID, or its private DNS name where id is empty.
type target struct{ id, name string }

func (t target) String() string {
	if t.id != "" {
		return t.id
	}
	return "with the private DNS name " + t.name
}

func targetOf(ref cloud.InstanceRef) (target, error) {
	if ref.ProviderID != "" {
		id, err := providerid.Parse(ref.ProviderID)
		return target{id: id}, err
	}
	if first, _, _ := strings.Cut(ref.NodeName, "."); providerid.IsInstanceID(first) {
		return target{id: first}, nil
	}
	if len(validation.IsDNS1123Subdomain(ref.NodeName)) > 0 { // a filter has wildcards
		return target{}, cloud.Errorf(cloud.KindInvalid, "node %.100q has no provider ID, and its name is no DNS name", ref.NodeName)
	}
	return target{name: ref.NodeName}, nil
}

// wanted are distinct targets.
type wanted map[target]bool

func (w wanted) add(t target) { w[t] = true }

// split returns the IDs and the names, sorted.
func (w wanted) split() (ids, names []string) {
	for t := range w {
		if t.id != "" {
			ids = append(ids, t.id)
		} else {
			names = append(names, t.name)
		}
	}
	slices.Sort(ids)
	slices.Sort(names)
	return ids, names
}

// search answers every target. KindNotFound only means "not in what was read".
func (i *Instances) search(ctx context.Context, w wanted) map[target]cloud.Result[*api.Instance] {
	out := make(map[target]cloud.Result[*api.Instance], len(w))
	if cluster := i.cluster(); cluster != "" && len(w) > api.MaxFilterValues {
		all, _, err := i.c.Instances(ctx, api.Filter("tag-key", tags.Key(cluster)))
		if err != nil {
			for t := range w {
				out[t] = cloud.Result[*api.Instance]{Err: err}
			}
			return out
		}
		i.match(all, w, out)
	}
	rest := wanted{}
	for t := range w {
		if _, answered := out[t]; !answered {
			rest.add(t)
		}
	}
	ids, names := rest.split()
	for chunk := range slices.Chunk(ids, api.MaxFilterValues) {
		some := wanted{}
		for _, id := range chunk {
			some.add(target{id: id})
		}
		i.filtered(ctx, some, out, api.Filter("instance-id", chunk...))
	}
	state := living()
	for chunk := range slices.Chunk(names, api.MaxFilterValues-len(state.Values)) {
		some := wanted{}
		for _, name := range chunk {
			some.add(target{name: name})
		}
		i.filtered(ctx, some, out, api.Filter("private-dns-name", chunk...), state)
	}
	return out
}

// living passes over instances that are terminated, as their names may be others' by now.
func living() types.Filter {
	return api.Filter("instance-state-name", string(types.InstanceStateNamePending), string(types.InstanceStateNameRunning),
		string(types.InstanceStateNameShuttingDown), string(types.InstanceStateNameStopping), string(types.InstanceStateNameStopped))
}

// filtered answers what filters find of.
func (i *Instances) filtered(ctx context.Context, w wanted, out map[target]cloud.Result[*api.Instance], filters ...types.Filter) {
	found, scope, err := i.c.Instances(ctx, filters...)
	if err == nil {
		i.match(found, w, out)
	} else {
		for t := range w {
			out[t] = cloud.Result[*api.Instance]{Err: err}
		}
	}
	for t := range w {
		if _, answered := out[t]; !answered {
			out[t] = cloud.Result[*api.Instance]{Err: absent(t, scope)}
		}
	}
}

func absent(t target, scope string) error {
	return &cloud.Error{Kind: cloud.KindNotFound, Scope: scope, Err: cloud.Errorf(cloud.KindNotFound, "there is no instance %s", t)}
}

// match answers the targets that are among the instances.
func (i *Instances) match(found []api.Instance, w wanted, out map[target]cloud.Result[*api.Instance]) {
	named := map[string][]*api.Instance{}
	for n := range found {
		f := &found[n]
		if t := (target{id: aws.ToString(f.InstanceId)}); w[t] {
			f, err := alive(t, f)
			out[t] = cloud.Result[*api.Instance]{Value: f, Err: err}
		}
		if name := aws.ToString(f.PrivateDnsName); w[target{name: name}] && stateOf(f) != types.InstanceStateNameTerminated {
			named[name] = append(named[name], f)
		}
	}
	for name, candidates := range named {
		f, err := i.theOne(name, candidates)
		out[target{name: name}] = cloud.Result[*api.Instance]{Value: f, Err: err}
	}
}

// theOne picks the instance with a private DNS name: another VPC's may have it, too. There is a candidate at least.
func (i *Instances) theOne(name string, candidates []*api.Instance) (*api.Instance, error) {
	cluster := i.cluster()
	ours := slices.DeleteFunc(slices.Clone(candidates), func(f *api.Instance) bool { return cluster != "" && !tags.Has(f.Tags, cluster) })
	byID := func(a, b *api.Instance) int {
		return cmp.Compare(aws.ToString(a.InstanceId), aws.ToString(b.InstanceId))
	}
	slices.SortFunc(ours, byID)
	ours = slices.CompactFunc(ours, func(a, b *api.Instance) bool { return byID(a, b) == 0 }) // pages may overlap
	switch len(ours) {
	case 0:
		return nil, cloud.Errorf(cloud.KindConflict, "instance %s has the private DNS name %s, but not the tag %s; tag it, or give the Node its provider ID (kubelet --provider-id)",
			aws.ToString(candidates[0].InstanceId), name, tags.Key(cluster))
	case 1:
		return ours[0], nil
	}
	return nil, cloud.Errorf(cloud.KindConflict, "%d instances have the private DNS name %s (%s and %s); give the Node its provider ID (kubelet --provider-id)",
		len(ours), name, aws.ToString(ours[0].InstanceId), aws.ToString(ours[1].InstanceId))
}

// byName reads the instance with a private DNS name. That none has it is weak evidence: other credentials see another account's
// instances, or none. So it counts only where there are some of the cluster's.
func (i *Instances) byName(ctx context.Context, t target) (*api.Instance, error) {
	out := map[target]cloud.Result[*api.Instance]{}
	i.filtered(ctx, wanted{t: true}, out, api.Filter("private-dns-name", t.name), living())
	r := out[t]
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
