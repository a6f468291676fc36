package nova

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/places"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// fewServers is how many servers are read one by one instead of from a list, at least: as
	// many as the list has pages, if that is more.
	fewServers = 2
	// statusShutoff is Nova's status of a server that is powered off and stays so.
	statusShutoff = "SHUTOFF"
	// labelHostID is the additional Node label that tells which Nodes share a host.
	labelHostID = "topology.openstack.org/host-id"
)

// Instances answers for Nova servers and their Neutron ports.
//
// Find makes one request per server for few of them, and otherwise one list of servers; and
// one list of ports (more only where they have several pages). Trunk subports cost
// two more requests, in all and not per server.
//
// A Node without a provider ID is looked up by the server's exact name. Two servers of that
// name are KindConflict: none is picked, unless the machine's own UUID says which it is. See
// confirmAbsent for what makes a name NotFound.
type Instances struct {
	c   *api.Client
	cfg *config.Config
	// regional says that provider IDs name the region.
	regional bool
	// pages is how many the last full list of servers had.
	pages atomic.Int64
}

// New makes the servers of a region. With regional their provider IDs name it.
func New(c *api.Client, cfg *config.Config, regional bool) *Instances {
	return &Instances{c: c, cfg: cfg, regional: regional}
}

// Find implements cloud.Instances.
func (i *Instances) Find(ctx context.Context, refs []cloud.InstanceRef) []cloud.Result[*cloud.Instance] {
	out := make([]cloud.Result[*cloud.Instance], len(refs))
	targets := make([]target, len(refs))
	distinct := map[target]bool{}
	for n, ref := range refs {
		if targets[n], out[n].Err = i.target(ref); out[n].Err == nil {
			distinct[targets[n]] = true
		}
	}
	if len(distinct) == 0 {
		return out
	}
	found := i.readServers(ctx, slices.Collect(maps.Keys(distinct)))
	instances, err := i.instances(ctx, found)
	for n := range refs {
		if out[n].Err != nil {
			continue
		}
		switch r := found[targets[n]]; {
		case r.Err != nil:
			out[n].Err = r.Err
		case err != nil:
			out[n].Err = err
		default:
			out[n].Value = instances[r.Value.ID]
		}
	}
	return out
}

// Get implements cloud.Instances.
func (i *Instances) Get(ctx context.Context, ref cloud.InstanceRef) (*cloud.Instance, error) {
	t, err := i.target(ref)
	if err != nil {
		return nil, err
	}
	s, err := i.getServer(ctx, t)
	if cloud.IsNotFound(err) && t.id == "" {
		s, err = i.confirmAbsent(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	instances, err := i.instances(ctx, map[target]cloud.Result[*server]{t: {Value: s}})
	if err != nil {
		return nil, err
	}
	return instances[s.ID], nil
}

// target is what a ref is looked up by: the server's UUID, or its name when id is empty, with
// the UUID that the machine itself reports, if any. Under KVM that is the server's; bare metal
// has its own.
type target struct{ id, name, machine string }

func (t target) String() string {
	if t.id != "" {
		return t.id
	}
	return "named " + t.name
}

func (i *Instances) target(ref cloud.InstanceRef) (target, error) {
	if ref.ProviderID == "" {
		if ref.NodeName == "" {
			return target{}, cloud.Errorf(cloud.KindInvalid, "node without a name and a provider ID")
		}
		t := target{name: ref.NodeName}
		if text.IsUUID(ref.SystemUUID) {
			t.machine = strings.ToLower(ref.SystemUUID)
		}
		return t, nil
	}
	id, region, err := providerid.Parse(ref.ProviderID)
	if err != nil {
		return target{}, err
	}
	if region != "" && region != i.c.Region() {
		return target{}, cloud.Errorf(cloud.KindInvalid, "provider ID %.200q is in region %.50q; this is region %q",
			ref.ProviderID, region, i.c.Region())
	}
	return target{id: id}, nil
}

// instances builds what Nodes get of the servers that were found, by ID. Ports are read for
// all of them at once; without them the addresses would be wrong, so a failure fails all.
func (i *Instances) instances(ctx context.Context, found map[target]cloud.Result[*server]) (map[string]*cloud.Instance, error) {
	servers := map[string]*server{}
	for _, r := range found {
		if r.Err == nil {
			servers[r.Value.ID] = r.Value
		}
	}
	if len(servers) == 0 {
		return nil, nil
	}
	net, err := i.readPorts(ctx, slices.Sorted(maps.Keys(servers)))
	if err != nil {
		return nil, err
	}
	out := make(map[string]*cloud.Instance, len(servers))
	for id, s := range servers {
		out[id] = i.instance(s, net)
	}
	return out, nil
}

func (i *Instances) instance(s *server, net *attachments) *cloud.Instance {
	region := ""
	if i.regional {
		region = i.c.Region()
	}
	return &cloud.Instance{
		ProviderID: providerid.Format(s.ID, region),
		Name:       s.Name,
		Type:       text.LabelValue(cmp.Or(s.Flavor.OriginalName, s.Flavor.ID)),
		Zone:       text.LabelValue(s.AvailabilityZone),
		Region:     i.c.Region(),
		Addresses:  nodeAddresses(s, net.ports[s.ID], net.subports[s.ID], &i.cfg.Networking),
		Labels:     nodeLabels(s, i.cfg.Metadata.NodeLabelPrefix),
		Shutdown:   s.Status == statusShutoff,
		MachineIDs: []string{s.ID}, // as libvirt tells the guest
		Scope:      s.scope,
	}
}

// nodeLabels are the additional labels of a server's Node. Nova allows no slash in a key of
// metadata, so that no label of Kubernetes' own can come from there.
func nodeLabels(s *server, prefix string) map[string]string {
	labels := map[string]string{}
	if host := text.LabelValue(s.HostID); host != "" {
		labels[labelHostID] = host
	}
	for key, value := range s.Metadata {
		name, ok := strings.CutPrefix(key, prefix)
		if ok && prefix != "" && !strings.Contains(name, "/") && len(validation.IsQualifiedName(name)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			labels[name] = value
		}
	}
	if len(labels) == 0 {
		return nil
	}
	return labels
}

// novaCellsMicroversion is the first in which servers of a cell that is down are listed (as
// stubs without a name) instead of being left out without a word (Stein).
const novaCellsMicroversion = "2.69"

// readServers answers every target: few one by one, many from one list. From a list,
// KindNotFound only means "not in it".
func (i *Instances) readServers(ctx context.Context, targets []target) map[target]cloud.Result[*server] {
	out := make(map[target]cloud.Result[*server], len(targets))
	if len(targets) <= max(fewServers, int(i.pages.Load())) {
		for _, t := range targets {
			s, err := i.getServer(ctx, t)
			out[t] = cloud.Result[*server]{Value: s, Err: err}
		}
		return out
	}
	scope, servers, err := i.listServers(ctx, nil)
	if err != nil {
		for _, t := range targets {
			out[t] = cloud.Result[*server]{Err: err}
		}
		return out
	}
	i.pages.Store(int64(len(servers)+api.PageSize-1) / api.PageSize)
	byID, byName := make(map[string]*server, len(servers)), make(map[string][]*server, len(servers))
	for n := range servers {
		s := &servers[n]
		if byID[s.ID] == nil { // pages may overlap while servers come and go
			byID[s.ID] = s
			byName[s.Name] = append(byName[s.Name], s)
		}
	}
	for _, t := range targets {
		s, err := pick(t, byID, byName)
		out[t] = cloud.Result[*server]{Value: s, Err: api.InScope(err, scope)}
	}
	return out
}

// pick finds a target's server in a list.
func pick(t target, byID map[string]*server, byName map[string][]*server) (*server, error) {
	if t.id == "" {
		if s := byID[t.machine]; s != nil {
			return ofThatName(t, s)
		}
		return theOne(t, byName[t.name])
	}
	if s := byID[t.id]; s != nil {
		return s, nil
	}
	return theOne(t, nil)
}

// ofThatName checks that the server with a machine's UUID bears the Node's name, which is
// what the API server vouches for: the UUID is only what the kubelet says.
func ofThatName(t target, s *server) (*server, error) {
	if s.Name == t.name {
		return s, nil
	}
	return nil, cloud.Errorf(cloud.KindConflict, "the machine of node %s is server %s, whose name is %q; rename the server, or set the Node's provider ID",
		t.name, s.ID, s.Name)
}

// theOne picks a target's server from the candidates.
func theOne(t target, candidates []*server) (*server, error) {
	switch len(candidates) {
	case 0:
		return nil, cloud.Errorf(cloud.KindNotFound, "server %s is not in the list of servers", t)
	case 1:
		return candidates[0], nil
	}
	return nil, cloud.Errorf(cloud.KindConflict, "%d servers are named %s (%s and %s); rename all but one, or set the Node's provider ID",
		len(candidates), t.name, candidates[0].ID, candidates[1].ID)
}

// listServers also returns where they are.
func (i *Instances) listServers(ctx context.Context, query url.Values) (scope string, servers []server, err error) {
	op := i.c.On(ctx, api.Compute, "list servers")
	servers, err = api.List[server](ctx, op, "servers/detail", query)
	for n := range servers {
		servers[n].scope = op.Scope()
	}
	return op.Scope(), servers, err
}

// getServer reads one server: by ID directly, by name from a list filtered by it. KindNotFound
// is final for an ID; for a name it means "not in the filtered list", see confirmAbsent.
func (i *Instances) getServer(ctx context.Context, t target) (*server, error) {
	if t.id != "" {
		return i.getServerByID(ctx, t.id)
	}
	if t.machine != "" {
		s, err := i.getServerByID(ctx, t.machine)
		if err == nil {
			return ofThatName(t, s)
		} else if !cloud.IsNotFound(err) {
			return nil, err
		}
	}
	return i.getServerByName(ctx, t)
}

// Exists is an error unless there is a server of that ID: KindNotFound where Nova says so.
func (i *Instances) Exists(ctx context.Context, id string) error {
	_, err := i.getServerByID(ctx, id)
	return err
}

func (i *Instances) getServerByID(ctx context.Context, id string) (*server, error) {
	op := i.c.On(ctx, api.Compute, "get server "+id)
	s, err := api.Get[server](ctx, op, "server", "servers", id)
	if err != nil {
		return nil, api.InScope(err, op.Scope())
	}
	if !strings.EqualFold(s.ID, id) {
		return nil, cloud.Errorf(cloud.KindUnknown, "get server %s: the answer is not about this server", id)
	}
	s.scope = op.Scope()
	return s, nil
}

func (i *Instances) getServerByName(ctx context.Context, t target) (*server, error) {
	// Nova takes the name as a regular expression.
	scope, servers, err := i.listServers(ctx, url.Values{"name": {"^" + regexp.QuoteMeta(t.name) + "$"}})
	if err != nil {
		return nil, err
	}
	var exact []*server
	for n := range servers {
		s := &servers[n]
		if s.Name == t.name && !slices.ContainsFunc(exact, func(o *server) bool { return o.ID == s.ID }) {
			exact = append(exact, s)
		}
	}
	s, err := theOne(t, exact)
	return s, api.InScope(err, scope)
}

// confirmAbsent decides whether there is no server of that name, after a list filtered by
// name was empty. A Node is deleted on KindNotFound, and an empty list is weak evidence: an
// unknown filter, another project's credentials or a cell that is down look just like it.
// So all servers are listed once more without any filter, and the name counts as absent
// only if
//
//   - that list is not empty: other credentials may yield an empty one (and where they yield
//     another project's servers, the scope tells);
//   - Nova lists servers of cells that are down (microversion 2.69), and there is none: such
//     a server has no name in the list and could be the one;
//   - no server has the name or the machine's UUID there, else the two lists contradict each other.
//
// Everything else is KindUnknown. A server that the full list does hold is returned.
func (i *Instances) confirmAbsent(ctx context.Context, t target) (*server, error) {
	what := "confirm that no server is named " + t.name
	op := i.c.On(ctx, api.Compute, what).At(novaCellsMicroversion)
	all, err := api.List[server](ctx, op, "servers/detail", nil)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, cloud.Errorf(cloud.KindUnknown, "%s: %w; are the credentials of the cluster's project?", what, places.ErrEmpty)
	}
	for n := range all {
		switch s := &all[n]; {
		case s.Name == "":
			return nil, cloud.Errorf(cloud.KindUnknown, "%s: server %s has no name in the list (status %s), its cell may be down", what, s.ID, s.Status)
		case s.Name == t.name:
			return i.getServerByID(ctx, s.ID)
		case s.ID == t.machine:
			return ofThatName(t, s)
		}
	}
	return nil, api.InScope(cloud.Errorf(cloud.KindNotFound, "no server is named %s", t.name), op.Scope())
}
