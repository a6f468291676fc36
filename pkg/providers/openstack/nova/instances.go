package nova

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
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
	c          *api.Client
	networking *config.Networking
	// labelPrefix begins the keys of metadata that become labels of Nodes.
	labelPrefix string
	// regional says that provider IDs name the region.
	regional bool
	// pages is how many the last full list of servers had.
	pages atomic.Int64
}

var _ cloud.Instances = (*Instances)(nil)

// New makes the servers of a region. With regional their provider IDs name it.
func New(c *api.Client, cfg *config.Config, regional bool) *Instances {
	return &Instances{c: c, networking: &cfg.Networking, labelPrefix: cfg.Metadata.NodeLabelPrefix, regional: regional}
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
	inst := &cloud.Instance{
		ProviderID: i.providerID(s.ID),
		Name:       s.Name,
		Type:       text.LabelValue(cmp.Or(s.Flavor.OriginalName, s.Flavor.ID)),
		Zone:       text.LabelValue(s.AvailabilityZone),
		Region:     i.c.Region(),
		Addresses:  nodeAddresses(s, net.ports[s.ID], net.subports[s.ID], i.networking),
		Shutdown:   s.Status == statusShutoff,
		MachineIDs: []string{s.ID}, // as libvirt tells the guest
		Scope:      s.scope,
	}
	inst.Labels = nodeLabels(s, i.labelPrefix)
	return inst
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

// providerID is a server's provider ID in the configured form.
func (i *Instances) providerID(serverID string) string {
	if i.regional {
		return providerid.Format(serverID, i.c.Region())
	}
	return providerid.Format(serverID, "")
}
