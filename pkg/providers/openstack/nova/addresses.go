package nova

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

// server is what is read of a Nova server.
type server struct {
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	Status           string            `json:"status"`
	HostID           string            `json:"hostId"`
	AvailabilityZone string            `json:"OS-EXT-AZ:availability_zone"`
	AccessIPv4       string            `json:"accessIPv4"`
	AccessIPv6       string            `json:"accessIPv6"`
	Metadata         map[string]string `json:"metadata"`
	Addresses        byNetwork         `json:"addresses"`
	Flavor           struct {
		ID           string `json:"id"`
		OriginalName string `json:"original_name"`
	} `json:"flavor"`

	scope string // where it was read
}

// byNetwork are a server's addresses by the names of their networks.
type byNetwork map[string][]serverAddress

// serverAddress is one address of a server as Nova knows it.
type serverAddress struct {
	Addr string `json:"addr"`
	Type string `json:"OS-EXT-IPS:type"`
}

const (
	statusActive    = "ACTIVE"
	addressFloating = "floating"
	// metadataHostname is the key of a server's metadata that names the Node's HostName.
	metadataHostname = "hostname"
)

// nodeAddresses builds a Node's addresses in their order: the fixed IPs of ACTIVE ports (ports must be sorted
// by ID, the order in which Neutron lists them), accessIPv4 and accessIPv6, the host name of the server's
// metadata, then what Nova lists, network by network in the order of their names, with trunk subports behind;
// of all that, what is configured comes first. The rules are those of openstack-cloud-controller-manager,
// because Nodes keep their first address for life. Pure.
func nodeAddresses(s *server, ports []neutron.Port, subports byNetwork, cfg *config.Networking) []corev1.NodeAddress {
	b := &cloud.AddressList{IPv4Only: cfg.IPv6SupportDisabled}
	for _, p := range ports {
		if p.Status != statusActive {
			continue
		}
		for _, ip := range p.FixedIPs {
			b.Add(corev1.NodeInternalIP, ip.IPAddress)
		}
	}
	b.Add(corev1.NodeExternalIP, s.AccessIPv4)
	b.Add(corev1.NodeExternalIP, s.AccessIPv6)
	if name := s.Metadata[metadataHostname]; name != "" {
		b.List = append(b.List, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.Addresses)), maps.Keys(subports))
	slices.Sort(names)
	for _, network := range slices.Compact(names) {
		for _, a := range slices.Concat(s.Addresses[network], subports[network]) {
			switch {
			case a.Type == addressFloating:
				b.Add(corev1.NodeExternalIP, a.Addr)
			case slices.Contains(cfg.PublicNetworkName, network):
				b.Remove(a.Addr) // its port made it an InternalIP
				b.Add(corev1.NodeExternalIP, a.Addr)
			case len(cfg.InternalNetworkName) == 0 || slices.Contains(cfg.InternalNetworkName, network):
				b.Add(corev1.NodeInternalIP, a.Addr)
			default:
				b.Remove(a.Addr)
			}
		}
	}
	b.Sort(cfg.Prefixes())
	return b.List
}

// attachments are the ports of servers and what reaches them through trunks, by server ID.
type attachments struct {
	ports    map[string][]neutron.Port // sorted by ID
	subports map[string]byNetwork
}

// ports reads those whose field has one of the values, of many values by listing every port once, and no
// more of a port than is used; Neutron ignores fields it does not know.
func (i *Instances) ports(ctx context.Context, op, field string, values []string) ([]neutron.Port, error) {
	return api.ListByOrAll[neutron.Port](ctx, i.c.On(ctx, api.Network, op), "ports", field,
		url.Values{field: values, "fields": {"id", "device_id", "network_id", "status", "fixed_ips", "trunk_details"}})
}

// readPorts reads the ports of the servers: of few by their devices, of many by listing
// every port once. (Ports cannot be listed by a prefix of device_owner, and the owner of a
// server's port names the zone it was made in, which need not be the server's any more.)
func (i *Instances) readPorts(ctx context.Context, servers []string) (*attachments, error) {
	all, err := i.ports(ctx, "list ports", "device_id", servers)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*neutron.Port, len(all))
	for n := range all {
		known[all[n].ID] = &all[n]
	}
	out := &attachments{ports: make(map[string][]neutron.Port, len(servers)), subports: map[string]byNetwork{}}
	for _, p := range known {
		if _, wanted := slices.BinarySearch(servers, p.DeviceID); wanted {
			out.ports[p.DeviceID] = append(out.ports[p.DeviceID], *p)
		}
	}
	for _, ports := range out.ports {
		slices.SortFunc(ports, func(a, b neutron.Port) int { return cmp.Compare(a.ID, b.ID) })
	}
	return out, i.readSubports(ctx, out, known)
}

// readSubports adds the trunk subports of the servers, which the ports that carry the
// trunks name: their ports where they are not known yet, and their networks' names, by
// which address rules go.
func (i *Instances) readSubports(ctx context.Context, a *attachments, known map[string]*neutron.Port) error {
	var missing []string
	carried := map[string][]string{} // server → subport IDs
	for server, ports := range a.ports {
		for _, p := range ports {
			if p.TrunkDetails == nil {
				continue
			}
			for _, sp := range p.TrunkDetails.SubPorts {
				carried[server] = append(carried[server], sp.PortID)
				if known[sp.PortID] == nil {
					missing = append(missing, sp.PortID)
				}
			}
		}
	}
	if len(carried) == 0 {
		return nil
	}
	more, err := i.ports(ctx, "list trunk subports", "id", missing)
	if err != nil {
		return err
	}
	for n := range more {
		known[more[n].ID] = &more[n]
	}
	names, err := i.networkNames(ctx, carried, known)
	if err != nil {
		return err
	}
	for server, ids := range carried {
		a.subports[server] = byNetwork{}
		for _, id := range ids {
			p := known[id]
			if p == nil || names[p.NetworkID] == "" {
				continue // another project's: its addresses cannot be seen
			}
			on := names[p.NetworkID]
			for _, ip := range p.FixedIPs {
				a.subports[server][on] = append(a.subports[server][on], serverAddress{Addr: ip.IPAddress, Type: "fixed"})
			}
		}
	}
	return nil
}

// networkNames reads the names of the carried subports' networks, by ID.
func (i *Instances) networkNames(ctx context.Context, carried map[string][]string, known map[string]*neutron.Port) (map[string]string, error) {
	var ids []string
	for _, subports := range carried {
		for _, id := range subports {
			if p := known[id]; p != nil && !slices.Contains(ids, p.NetworkID) {
				ids = append(ids, p.NetworkID)
			}
		}
	}
	slices.Sort(ids)
	type network struct{ ID, Name string }
	list, err := api.ListByOrAll[network](ctx, i.c.On(ctx, api.Network, "list networks of trunk subports"), "networks", "id",
		url.Values{"id": ids, "fields": {"id", "name"}})
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(list))
	for _, n := range list {
		names[n.ID] = n.Name
	}
	return names, nil
}
