package plan

import (
	"cmp"
	"net/netip"
	"slices"
)

// Protocols, monitor types and states as Octavia writes them.
const (
	ProtoTCP     = "TCP"
	ProtoUDP     = "UDP"
	ProtoSCTP    = "SCTP"
	ProtoHTTP    = "HTTP"
	ProtoTLS     = "TERMINATED_HTTPS"
	ProtoProxy   = "PROXY"
	ProtoProxyV2 = "PROXYV2"

	PersistenceSourceIP = "SOURCE_IP"

	MonitorTCP  = "TCP"
	MonitorUDP  = "UDP-CONNECT"
	MonitorSCTP = "SCTP"
	MonitorHTTP = "HTTP"

	StateActive        = "ACTIVE"
	StateError         = "ERROR"
	StatePendingCreate = "PENDING_CREATE"
)

// What is Isthmus's of a load balancer, and is put right when others change it: listeners,
// pools, members by address and port, monitors, and of these the fields below. What operators
// use to drain and tune stays as they set it: weights, backup members, every admin_state_up,
// names and descriptions of children, foreign tags and headers.

// Tree is what a load balancer consists of: as it is, or as far as ours as it shall be.
// A listener's pool is one of Pools.
type Tree struct {
	Listeners []*Listener
	Pools     []*Pool
}

// Size counts what makes a tree big: members and source ranges.
func (t *Tree) Size() (n int) {
	for _, l := range t.Listeners {
		n += len(l.AllowedCIDRs) + len(l.Pool.Members)
	}
	return n
}

// HasAll reports whether the tree has all of these listeners.
func (t *Tree) HasAll(listeners []Ref) bool {
	return !slices.ContainsFunc(listeners, func(id Ref) bool {
		return !slices.ContainsFunc(t.Listeners, func(l *Listener) bool { return l.ID == id.ID })
	})
}

// HasPools reports whether the tree has all of these pools.
func (t *Tree) HasPools(pools []Ref) bool {
	return !slices.ContainsFunc(pools, func(id Ref) bool {
		return !slices.ContainsFunc(t.Pools, func(p *Pool) bool { return p.ID == id.ID })
	})
}

// Listener is a listener. Only what Isthmus manages is in it. Tags of JSON are where Octavia says the same.
type Listener struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Protocol     string    `json:"protocol"`
	Port         int       `json:"protocol_port"`
	Connections  int       `json:"connection_limit"`
	Timeouts     *Timeouts `json:"-"` // nil where the provider has none
	TLSRef       string    `json:"default_tls_container_ref"`
	ForwardedFor bool      `json:"-"`
	AllowedCIDRs []string  `json:"allowed_cidrs"` // sorted; nil lets everyone in
	Everyone     []string  `json:"-"`             // how that is written where AllowedCIDRs is nil; nil is the cloud's own way
	Tags         []string  `json:"tags"`
	Pool         *Pool     `json:"-"`
	// Headers are all inserted headers as they are, so that an update keeps foreign ones.
	Headers map[string]string `json:"insert_headers"`
}

// Timeouts are a listener's timeouts in ms.
type Timeouts struct {
	Client  int `json:"timeout_client_data"`
	Connect int `json:"timeout_member_connect"`
	Member  int `json:"timeout_member_data"`
	Inspect int `json:"timeout_tcp_inspect"`
}

// Pool is a pool with its members and monitor.
type Pool struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Protocol   string   `json:"protocol"`
	Method     string   `json:"lb_algorithm"`
	ByClientIP bool     `json:"-"` // session persistence SOURCE_IP
	Members    []Member `json:"-"`
	Monitor    *Monitor `json:"-"`
	// Implied says of a wish that nobody asks for its monitor but policy Local.
	Implied bool `json:"-"`

	// KeepMethod is, in a wish, another algorithm that a pool may keep, or anyMethod.
	KeepMethod string `json:"-"`
	// Thin says that of the members only names, addresses and ports are known.
	Thin bool `json:"-"`
	// Status is the provisioning status as read.
	Status string `json:"provisioning_status"`
	// Used says that a listener or an L7 policy refers to the pool.
	Used bool `json:"-"`
}

// Member is a member. From Weight on, fields are never wishes: they are kept as they are.
type Member struct {
	Name        string `json:"name"`
	Address     string `json:"address"`
	Port        int    `json:"protocol_port"`
	MonitorPort int    `json:"monitor_port"` // 0 for Port

	// ClearMonitorPort says that the member has a monitor port which it shall lose.
	ClearMonitorPort bool `json:"-"`

	Weight   *int `json:"weight"`
	Disabled bool `json:"-"`
	Backup   bool `json:"backup"`
	// SubnetID is a wish only where the configuration names the members' subnet.
	SubnetID string   `json:"subnet_id"`
	Tags     []string `json:"tags"`
}

// Monitor is a pool's health monitor; times are in seconds.
type Monitor struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Type           string `json:"type"`
	Delay          int    `json:"delay"`
	Timeout        int    `json:"timeout"`
	MaxRetries     int    `json:"max_retries"`
	MaxRetriesDown int    `json:"max_retries_down"`
	// Path, Method and Codes are empty but of HTTP monitors.
	Path   string `json:"url_path"`
	Method string `json:"http_method"`
	Codes  string `json:"expected_codes"`

	// Status is the provisioning status as read.
	Status string `json:"provisioning_status"`
}

// ListenerKey is what only one listener of a load balancer can have.
type ListenerKey struct {
	transport string
	port      int
}

// Key is what only one listener of the load balancer can have.
func (l *Listener) Key() ListenerKey {
	k := ListenerKey{transport: ProtoTCP, port: l.Port}
	if l.Protocol == ProtoUDP || l.Protocol == ProtoSCTP {
		k.transport = l.Protocol
	}
	return k
}

// Endpoint is the member's address and port.
func (m Member) Endpoint() netip.AddrPort {
	addr, _ := netip.ParseAddr(m.Address) // the zero address for what Octavia could not have sent
	return netip.AddrPortFrom(addr, uint16(m.Port))
}

// SortMembers puts members into the order in which trees have them.
func SortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(a.Endpoint().Compare(b.Endpoint()), cmp.Compare(a.Name, b.Name))
	})
}

// Clone copies the tree deeply enough that changing the copy's nodes leaves t as it is.
func (t *Tree) Clone() *Tree {
	pools := map[*Pool]*Pool{}
	out := &Tree{}
	for _, p := range t.Pools {
		c := *p
		c.Members = slices.Clone(p.Members)
		if p.Monitor != nil {
			m := *p.Monitor
			c.Monitor = &m
		}
		pools[p] = &c
		out.Pools = append(out.Pools, &c)
	}
	for _, l := range t.Listeners {
		c := *l
		c.Pool = pools[l.Pool]
		out.Listeners = append(out.Listeners, &c)
	}
	return out
}

// NormalCIDRs sorts the clients that are let in; those that include everyone are the same
// as none, which is how other controllers write it.
func NormalCIDRs(cidrs []string) []string {
	if len(cidrs) == 0 || slices.Contains(cidrs, "0.0.0.0/0") || slices.Contains(cidrs, "::/0") {
		return nil
	}
	return slices.Sorted(slices.Values(cidrs))
}
