package openstack

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/compute"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/identity"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/keymanager"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/network"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/volume"
)

// Options configures a simulator. The zero value is a good one.
type Options struct {
	// Listen is the API's address, "127.0.0.1:0" by default. It must be a loopback address or one of Addresses.
	Listen string
	// Addresses is a /16 of IPv4 whose addresses the simulator hands out in place of loopback's, where a network
	// namespace is the cloud's: the caller has routes to the servers, and the kernel takes the others for its own.
	Addresses netip.Prefix
	// Net is the second octet of the 127.N.0.0/16 whose addresses the simulator hands out; 0 picks a free one.
	Net int
	// TLS serves HTTPS with a certificate of an own CA; see Sim.CAFile.
	TLS bool
	// TokenLifetime is how long a token is valid, 1 hour by default.
	TokenLifetime time.Duration
	// StateDelay is how long transient states (BUILD, PENDING_CREATE, …) last: 20 ms by default,
	// negative for as short as possible.
	StateDelay time.Duration
	// OctaviaDelay is how long PENDING_* states of load balancers last, StateDelay by default.
	OctaviaDelay time.Duration
	// Jobboard has fully populated creates of the amphora driver done whole, as where Octavia's jobboard is
	// turned on; without, which is the default, Zed leaves their children in PENDING_CREATE.
	Jobboard bool
	// HideExternalSubnets shows the subnets of external networks to nobody but their project, as Neutron's default
	// policy has it; without, everyone sees them, as in clouds that let users choose among them.
	HideExternalSubnets bool
	// LeakVIPPorts keeps the VIP's port when a fully populated create of a load balancer is refused
	// after the port was made. Zed does that; the port must then be deleted by hand.
	LeakVIPPorts bool
	// Trunks loads Neutron's service plugin trunk, which not every cloud has.
	Trunks bool
	// Keystone makes the simulator a further region of another one, which must be open longer: its
	// catalog gets this one's endpoints, and its tokens are the valid ones. Region is the name, which
	// then is required; without Keystone it is the constant Region.
	Keystone *Sim
	Region   string
	// MaxLimit is the largest page that Nova and Cinder answer with, 1000 by default as
	// osapi_max_limit has it.
	MaxLimit int
}

type (
	// Fault makes matching requests go wrong.
	Fault = core.Fault
	// Mutation is a call that changes the cloud, as hooks see it.
	Mutation = core.Mutation
	// Request is one line of the request log.
	Request = core.Request
	// Item is one object in a Snapshot.
	Item = core.Item

	// Federation is an identity provider whose tokens Keystone takes.
	Federation = identity.Federation
	// AppCredential is an application credential.
	AppCredential = identity.AppCredential
	// Server is a server as tests see it.
	Server = compute.Server
	// Seed says which servers SeedServers makes.
	Seed = compute.Seed
	// Route is one of a router's.
	Route = network.Route
	// LoadBalancer is a load balancer with all below it.
	LoadBalancer = loadbalancer.LoadBalancer
	// Listener is a listener with its default pool.
	Listener = loadbalancer.Listener
)

// Names of what every simulator starts with.
const (
	Region        = identity.Region
	UserName      = identity.UserName
	UserPassword  = identity.UserPassword
	ProjectName   = identity.ProjectName
	AdminName     = identity.AdminName
	AdminPassword = identity.AdminPassword
)

// Sim is a running simulator. All methods may be called concurrently.
type Sim struct {
	*core.API
	*identity.Keystone
	*compute.Nova
	*network.Neutron
	*loadbalancer.Octavia
	*volume.Cinder
	*keymanager.Barbican

	region string
}

// Start starts a simulator with one project, a public and a private network joined by a
// router, flavors and volume types, and no servers.
func Start(opts Options) (*Sim, error) {
	if (opts.Keystone == nil) != (opts.Region == "") {
		return nil, errors.New("the options Keystone and Region go together")
	}
	if opts.Region == "" {
		opts.Region = identity.Region
	}
	if opts.TokenLifetime == 0 {
		opts.TokenLifetime = time.Hour
	}
	if opts.MaxLimit == 0 {
		opts.MaxLimit = 1000
	}
	api, cloud, err := core.Listen(core.Options{Listen: opts.Listen, Addresses: opts.Addresses, Net: opts.Net, TLS: opts.TLS, StateDelay: opts.StateDelay})
	if err != nil {
		return nil, err
	}
	s := &Sim{API: api, region: opts.Region}
	services := s.compose(cloud, opts)
	api.Serve(s.Keystone, services)
	return s, nil
}

// compose makes the services, gives each what it needs of the others, and returns those that this simulator serves.
func (s *Sim) compose(cloud *core.Cloud, opts Options) []*core.Service {
	var main *identity.Keystone
	if opts.Keystone != nil {
		main = opts.Keystone.Keystone
	}
	keystone := identity.New(cloud, main, opts.Region, opts.TokenLifetime)
	owner := keystone.Owner()
	neutron := network.New(cloud, network.Options{
		Trunks: opts.Trunks, HideExternalSubnets: opts.HideExternalSubnets,
		Projects: keystone.ProjectIDs(), Own: keystone.ProjectID(identity.ProjectName), Admin: keystone.ProjectID(identity.AdminName),
	})
	nova := compute.New(cloud, neutron.Ports(), owner, opts.MaxLimit)
	cinder := volume.New(cloud, owner, opts.MaxLimit)
	barbican := keymanager.New(cloud, owner)
	octavia := loadbalancer.New(cloud, loadbalancer.Options{
		Delay: opts.OctaviaDelay, Jobboard: opts.Jobboard, LeakVIPPorts: opts.LeakVIPPorts,
		Network: neutron.Ports(), HasCertificate: barbican.Finder(), Project: owner.ProjectID, SubnetID: neutron.Defaults().SubnetID,
	})
	s.Keystone, s.Nova, s.Neutron, s.Octavia, s.Cinder, s.Barbican = keystone, nova, neutron, octavia, cinder, barbican
	services := []*core.Service{nova.Service(), nova.ImageService(), cinder.Service(), barbican.Service(), neutron.Service(), octavia.Service()}
	if main == nil {
		services = append(services, keystone.Service())
	}
	return services
}

// ForTest is Start for a test or benchmark: it fails t on errors, and ends with it.
func ForTest(t testing.TB, opts ...Options) *Sim {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Snapshot returns what exists now.
func (s *Sim) Snapshot() core.Snapshot {
	s.Keystone.Lock() // which all services share
	defer s.Keystone.Unlock()
	var out core.Snapshot
	s.Keystone.Snapshot(&out)
	s.Nova.Snapshot(&out)
	s.Cinder.Snapshot(&out)
	s.Barbican.Snapshot(&out)
	s.Neutron.Snapshot(&out)
	s.Octavia.Snapshot(&out)
	return out
}
