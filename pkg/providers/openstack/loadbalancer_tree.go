package openstack

import (
	"cmp"
	"net/netip"
	"slices"
)

// Protocols, monitor types and states as Octavia writes them.
const (
	protoTCP, protoUDP, protoSCTP = "TCP", "UDP", "SCTP"
	protoHTTP, protoTLS           = "HTTP", "TERMINATED_HTTPS"
	protoProxy, protoProxyV2      = "PROXY", "PROXYV2"

	persistenceSourceIP = "SOURCE_IP"

	monitorTCP, monitorUDP, monitorSCTP = "TCP", "UDP-CONNECT", "SCTP"
	monitorHTTP                         = "HTTP"

	stateActive        = "ACTIVE"
	stateError         = "ERROR"
	statePendingCreate = "PENDING_CREATE"
)

// What is Isthmus's of a load balancer, and is put right when others change it: listeners,
// pools, members by address and port, monitors, and of these the fields below. What operators
// use to drain and tune stays as they set it: weights, backup members, every admin_state_up,
// names and descriptions of children, foreign tags and headers.

// lbTree is what a load balancer consists of: as it is, or as far as ours as it shall be.
// A listener's pool is one of Pools.
type lbTree struct {
	Listeners []*lbListener
	Pools     []*lbPool
}

// hasAll reports whether the tree has all of these listeners.
func (t *lbTree) hasAll(listeners []octaviaID) bool {
	return !slices.ContainsFunc(listeners, func(id octaviaID) bool {
		return !slices.ContainsFunc(t.Listeners, func(l *lbListener) bool { return l.ID == id.ID })
	})
}

// hasPools reports whether the tree has all of these pools.
func (t *lbTree) hasPools(pools []octaviaID) bool {
	return !slices.ContainsFunc(pools, func(id octaviaID) bool {
		return !slices.ContainsFunc(t.Pools, func(p *lbPool) bool { return p.ID == id.ID })
	})
}

// lbListener is a listener. Only what Isthmus manages is in it.
type lbListener struct {
	ID           string
	Name         string
	Protocol     string
	Port         int
	Connections  int
	Timeouts     *lbTimeouts // nil where the provider has none
	TLSRef       string
	ForwardedFor bool
	AllowedCIDRs []string // sorted; nil lets everyone in
	Everyone     []string // how that is written where AllowedCIDRs is nil; nil is the cloud's own way
	Tags         []string
	Pool         *lbPool
	// Headers are all inserted headers as they are, so that an update keeps foreign ones.
	Headers map[string]string
}

// lbTimeouts are a listener's timeouts in ms.
type lbTimeouts struct{ Client, Connect, Member, Inspect int }

// lbPool is a pool with its members and monitor.
type lbPool struct {
	ID         string
	Name       string
	Protocol   string
	Method     string
	ByClientIP bool // session persistence SOURCE_IP
	Members    []lbMember
	Monitor    *lbMonitor
	// Implied says of a wish that nobody asks for its monitor but policy Local.
	Implied bool

	// KeepMethod is, in a wish, another algorithm that a pool may keep, or anyMethod.
	KeepMethod string
	// Thin says that of the members only names, addresses and ports are known.
	Thin bool
	// Status is the provisioning status as read.
	Status string
	// Used says that a listener or an L7 policy refers to the pool.
	Used bool
}

// lbMember is a member. From Weight on, fields are never wishes: they are kept as they are.
type lbMember struct {
	Name        string
	Address     string
	Port        int
	MonitorPort int // 0 for Port

	// ClearMonitorPort says that the member has a monitor port which it shall lose.
	ClearMonitorPort bool

	Weight   *int
	Disabled bool
	Backup   bool
	// SubnetID is a wish only where the configuration names the members' subnet.
	SubnetID string
	Tags     []string
}

// lbMonitor is a pool's health monitor; times are in seconds.
type lbMonitor struct {
	ID                         string
	Name                       string
	Type                       string
	Delay, Timeout             int
	MaxRetries, MaxRetriesDown int
	Path, Method, Codes        string // of HTTP monitors

	// Status is the provisioning status as read.
	Status string
}

// listenerKey is what only one listener of a load balancer can have.
type listenerKey struct {
	transport string
	port      int
}

func (l *lbListener) key() listenerKey {
	k := listenerKey{transport: protoTCP, port: l.Port}
	if l.Protocol == protoUDP || l.Protocol == protoSCTP {
		k.transport = l.Protocol
	}
	return k
}

func (m lbMember) endpoint() netip.AddrPort {
	addr, _ := netip.ParseAddr(m.Address) // the zero address for what Octavia could not have sent
	return netip.AddrPortFrom(addr, uint16(m.Port))
}

func sortMembers(members []lbMember) {
	slices.SortFunc(members, func(a, b lbMember) int {
		return cmp.Or(a.endpoint().Compare(b.endpoint()), cmp.Compare(a.Name, b.Name))
	})
}

// clone copies the tree deeply enough that changing the copy's nodes leaves t as it is.
func (t *lbTree) clone() *lbTree {
	pools := map[*lbPool]*lbPool{}
	out := &lbTree{}
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
