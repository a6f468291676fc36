package neutron

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// maxSubnets bounds what is remembered, so that deleted subnets do not pile up.
const maxSubnets = 1000

// Subnet is as much of a subnet as anything reads.
type Subnet struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	NetworkID string       `json:"network_id"`
	Version   int          `json:"ip_version"`
	CIDR      netip.Prefix `json:"cidr"`
}

// Subnets reads subnets and the networks that they are of. It remembers, until the process ends,
// the CIDRs of at most maxSubnets subnets by ID, which never change, and the external network until
// it is said to be of no use.
type Subnets struct {
	c        *api.Client
	external atomic.Pointer[string] // nil where it has to be looked for

	mu   sync.Mutex
	byID map[string]netip.Prefix
}

// NewSubnets makes the subnets of a region.
func NewSubnets(c *api.Client) *Subnets { return &Subnets{c: c} }

// get reads one subnet, of which what says what the answer must have.
func (s *Subnets) get(ctx context.Context, id, what string, has func(*Subnet) bool) (*Subnet, error) {
	op := "get subnet " + id
	subnet, err := api.Get[Subnet](ctx, s.c.On(ctx, api.Network, op), "subnet", "subnets", id)
	if err == nil && !has(subnet) {
		err = &cloud.Error{Op: op, Err: errors.New("the answer has none with a " + what)}
	}
	return subnet, err
}

// CIDR is a subnet's, read once per process.
func (s *Subnets) CIDR(ctx context.Context, id string) (netip.Prefix, error) {
	s.mu.Lock()
	cidr, known := s.byID[id]
	s.mu.Unlock()
	if known {
		return cidr, nil
	}
	subnet, err := s.get(ctx, id, "CIDR", func(x *Subnet) bool { return x.CIDR.IsValid() }) // it would be remembered
	if err != nil {
		return netip.Prefix{}, err
	}
	s.remember(id, subnet.CIDR)
	return subnet.CIDR, nil
}

func (s *Subnets) remember(id string, cidr netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil || len(s.byID) >= maxSubnets {
		s.byID = map[string]netip.Prefix{}
	}
	s.byID[id] = cidr
}

// NetworkOf is the network of a subnet.
func (s *Subnets) NetworkOf(ctx context.Context, id string) (string, error) {
	subnet, err := s.get(ctx, id, "network", func(x *Subnet) bool { return x.NetworkID != "" })
	if err != nil {
		return "", err
	}
	return subnet.NetworkID, nil
}

// In lists the subnets of a network, those that query asks for.
func (s *Subnets) In(ctx context.Context, network string, query url.Values) ([]Subnet, error) {
	q := url.Values{"network_id": {network}}
	maps.Copy(q, query)
	return api.List[Subnet](ctx, s.c.On(ctx, api.Network, "list subnets of network "+network), "subnets", q)
}

// OfAddress are the subnets in which servers have an address: one server or, with "", any.
func (s *Subnets) OfAddress(ctx context.Context, addr netip.Addr, server string) ([]string, error) {
	query := url.Values{"fixed_ips": {"ip_address=" + addr.String()}}
	if server != "" {
		query.Set("device_id", server)
	}
	ports, err := api.List[Port](ctx, s.c.On(ctx, api.Network, "find the port with address "+addr.String()), "ports", query)
	var found []string
	for _, p := range ports {
		if server == "" && !strings.HasPrefix(p.DeviceOwner, "compute:") {
			continue
		}
		for _, f := range p.FixedIPs {
			if f.IPAddress == addr.String() && !slices.Contains(found, f.SubnetID) {
				found = append(found, f.SubnetID)
			}
		}
	}
	return found, err
}

// External is the network that floating IPs come from when nothing names one, "" for none: the
// first external one, in the order of the API, that has an IPv4 subnet, or one that is not shown to
// the project. It is the existing manager's choice.
func (s *Subnets) External(ctx context.Context) (string, error) {
	if id := s.external.Load(); id != nil {
		return *id, nil
	}
	type network struct {
		ID      string   `json:"id"`
		Subnets []string `json:"subnets"`
	}
	networks, err := api.List[network](ctx, s.c.On(ctx, api.Network, "find the external network"), "networks", url.Values{"router:external": {"true"}})
	if err != nil {
		return "", err
	}
	for _, n := range networks {
		if len(n.Subnets) == 0 {
			continue
		}
		visible, err := s.In(ctx, n.ID, nil)
		if err != nil {
			return "", err
		}
		other := map[string]bool{} // visible, and not of IPv4
		for _, x := range visible {
			other[x.ID] = x.Version != 4
		}
		if slices.ContainsFunc(n.Subnets, func(id string) bool { return !other[id] }) {
			s.external.Store(&n.ID)
			return n.ID, nil
		}
	}
	return "", nil
}

// ForgetExternal has the external network looked for again: it may have been replaced.
func (s *Subnets) ForgetExternal() { s.external.Store(nil) }
