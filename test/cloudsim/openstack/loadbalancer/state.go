package loadbalancer

import (
	"net/netip"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/forward"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// Provisioning and operating statuses.
const (
	active        = "ACTIVE"
	pendingCreate = "PENDING_CREATE"
	pendingUpdate = "PENDING_UPDATE"
	pendingDelete = "PENDING_DELETE"
	online        = "ONLINE"
	offline       = "OFFLINE"
	noMonitor     = "NO_MONITOR"
	inError       = "ERROR"
)

// Options are openstack.Options as far as they are Octavia's, and what it has of the others.
type Options struct {
	// Delay is that of PENDING_* states, 0 for that of all transient states.
	Delay                  time.Duration
	Jobboard, LeakVIPPorts bool

	Network core.Ports
	// HasCertificate reports whether there is a secret or container with an id; the lock is held.
	HasCertificate func(id string) bool
	// Project and SubnetID are where AddLoadBalancer makes some.
	Project, SubnetID string
}

// Octavia is the simulated service.
type Octavia struct {
	*core.Cloud
	network core.Ports
	opts    Options

	seq       int
	lbs       map[string]*loadBalancer
	listeners map[string]*listener
	pools     map[string]*pool
	members   map[string]*member
	monitors  map[string]*monitor
}

// lbEntity is what all of Octavia's objects have.
type lbEntity struct {
	id, project, name, description string

	seq              int
	tags             []string
	created, updated time.Time // updated is zero before the first change
	prov, oper       string
	adminUp          bool
	// stuck says that a fully populated create left the object in PENDING_CREATE, see strand.
	stuck bool
}

// lbItem is one of Octavia's objects.
type lbItem interface {
	root() *lbEntity
	// owner is the load balancer that the object belongs to.
	owner() *loadBalancer
}

func (e *lbEntity) root() *lbEntity { return e }

type loadBalancer struct {
	lbEntity
	provider           string
	vip                netip.Addr
	vipPort, vipSubnet string
	vipNetwork         string
	additional         []additionalVIP
	ownsPort           bool   // the VIP's port was made with the load balancer
	stranded           bool   // the data plane has heard of none of the children, see strand
	group              string // id of the VIP port's security group, "" for none
	listeners          []*listener
	pools              []*pool
	forwards           map[forward.Key]*forwarding
	checks             map[*pool]*healthCheck
}

type listener struct {
	lbEntity
	lb       *loadBalancer
	protocol string
	port     int
	pool     *pool

	limit         int
	tls           any // default_tls_container_ref
	sni           []string
	insertHeaders map[string]string
	timeouts      listenerTimeouts
	cidrs         []string
}

type listenerTimeouts struct{ client, connect, member, inspect int }

type pool struct {
	lbEntity
	lb                  *loadBalancer
	protocol, algorithm string
	persistence         *persistence
	members             []*member
	monitor             *monitor
}

type persistence struct {
	Type        string  `json:"type"`
	Cookie      *string `json:"cookie_name"`
	Timeout     *int    `json:"persistence_timeout"`
	Granularity *string `json:"persistence_granularity"`
}

type member struct {
	lbEntity
	pool           *pool
	address        netip.Addr
	port           int
	weight         int
	backup         bool
	subnet         *string
	monitorAddress *string
	monitorPort    *int
}

type monitor struct {
	lbEntity
	pool                                  *pool
	typ                                   string
	delay, timeout, retries, retriesDown  int
	method, path, codes, httpVersion, dom any
}

func (x *loadBalancer) owner() *loadBalancer { return x }
func (x *listener) owner() *loadBalancer     { return x.lb }
func (x *pool) owner() *loadBalancer         { return x.lb }
func (x *member) owner() *loadBalancer       { return x.pool.lb }
func (x *monitor) owner() *loadBalancer      { return x.pool.lb }

// New makes Octavia without load balancers.
func New(cloud *core.Cloud, opts Options) *Octavia {
	s := &Octavia{
		Cloud: cloud, network: opts.Network, opts: opts,
		lbs: map[string]*loadBalancer{}, listeners: map[string]*listener{}, pools: map[string]*pool{},
		members: map[string]*member{}, monitors: map[string]*monitor{},
	}
	s.network.Watch(s.forwardPort)
	return s
}

// newLBEntity makes the base of a new object.
func (s *Octavia) newLBEntity(project string) lbEntity {
	s.seq++
	return lbEntity{id: core.NewID(), project: project, seq: s.seq, created: time.Now().UTC(), prov: pendingCreate, oper: offline, adminUp: true}
}

// byAge returns the objects in order of creation, as Octavia lists them.
func byAge[T lbItem](m map[string]T) []T {
	out := make([]T, 0, len(m))
	for _, x := range m {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b T) int { return a.root().seq - b.root().seq })
	return out
}

// tree lists a load balancer and all below it.
func (x *loadBalancer) tree() []lbItem {
	out := []lbItem{x}
	for _, l := range x.listeners {
		out = append(out, l)
	}
	for _, p := range x.pools {
		out = append(out, p)
		for _, m := range p.members {
			out = append(out, m)
		}
		if p.monitor != nil {
			out = append(out, p.monitor)
		}
	}
	return out
}

// users are the listeners whose default pool it is.
func (x *pool) users() []*listener {
	var out []*listener
	for _, l := range x.lb.listeners {
		if l.pool == x {
			out = append(out, l)
		}
	}
	return out
}

// Snapshot adds what exists; the lock is held.
func (s *Octavia) Snapshot(out *core.Snapshot) {
	item := func(x lbItem, info string) core.Item {
		return core.Item{ID: x.root().id, Name: x.root().name, Info: info}
	}
	for _, x := range byAge(s.lbs) {
		out.LoadBalancers = append(out.LoadBalancers, item(x, x.prov+" "+x.vip.String()))
	}
	for _, x := range byAge(s.listeners) {
		out.Listeners = append(out.Listeners, item(x, x.protocol))
	}
	for _, x := range byAge(s.pools) {
		out.Pools = append(out.Pools, item(x, x.protocol))
	}
	for _, x := range byAge(s.members) {
		out.Members = append(out.Members, item(x, netip.AddrPortFrom(x.address, uint16(x.port)).String()))
	}
	for _, x := range byAge(s.monitors) {
		out.HealthMonitors = append(out.HealthMonitors, item(x, x.typ))
	}
}
