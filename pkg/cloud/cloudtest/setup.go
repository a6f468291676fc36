package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Setup is a cloud to be checked.
type Setup struct {
	// New makes the provider, decorated or not, as a started process does: it knows nothing of
	// earlier ones. It must pass o.Traffic on. stop ends what it has running; may be nil.
	New func(o cloud.Options) (p *cloud.Provider, stop func(), err error)
	// NewDenied is New with credentials that the cloud does not accept.
	NewDenied func(o cloud.Options) (p *cloud.Provider, stop func(), err error)
	// World is the cloud from outside.
	World World
	// Unsupported are the features that the cloud lacks, with the reason of each.
	Unsupported map[Feature]string
	// Annotations are those of every Service, such as choose one of several kinds of load balancers; may be nil.
	Annotations cloud.Settings
	// Remembers says that the provider believes for a while what it knows of load balancers, so that only a new
	// process sees at once what others have changed.
	Remembers bool
	// Patience bounds the wait for the cloud to finish one thing; 2 min when zero.
	Patience time.Duration
}

// World arranges and observes a cloud from outside, past the provider. Its methods may be
// called concurrently. Unless they say otherwise they wait until the cloud is done.
type World interface {
	// MakeInstance makes a running instance with an address of each IP family that the cloud has.
	MakeInstance(ctx context.Context, name string) (Instance, error)
	StopInstance(ctx context.Context, i Instance) error
	// DeleteInstance succeeds where there is none any more.
	DeleteInstance(ctx context.Context, i Instance) error
	// UnknownID is a well-formed provider ID of no instance; ForeignID is another cloud's.
	UnknownID() string
	ForeignID() string

	// Settings are the annotations that ask for a feature: LoadBalancerHTTP, …TLS, …PROXY,
	// …PROXYv1, …Internal, …Hostname (HostName), …IPv6, …Dual; ErrNoAnnotation where none does. What
	// they need is made beforehand and stays.
	Settings(ctx context.Context, f Feature) (cloud.Settings, error)
	// UseLoadBalancer are the annotations that put a Service onto a load balancer; nil where none do.
	UseLoadBalancer(id string) cloud.Settings
	// MakeLoadBalancer makes one as a user does, with one listener, and returns its ID.
	MakeLoadBalancer(ctx context.Context, name string) (string, error)
	// LoadBalancer is the load balancer with the ID as it is; nil when there is none.
	LoadBalancer(ctx context.Context, id string) (*LoadBalancer, error)
	// LoadBalancerID is the ID of the one that serves a Service, by what the provider published.
	LoadBalancerID(s *cloud.LoadBalancerStatus) string
	// DeleteLoadBalancer deletes one with all that is part of it; nil where there is none.
	DeleteLoadBalancer(ctx context.Context, id string) error
	// ReserveAddress makes a public address that is the user's.
	ReserveAddress(ctx context.Context) (Address, error)
	// MakeForeign makes objects of others that are easily taken for the Service's, on and next
	// to its load balancer. intact fails when one is gone or changed.
	MakeForeign(ctx context.Context, ref cloud.LoadBalancerRef, id string) (intact, remove func(context.Context) error, err error)

	// AddRoute makes a route as an operator does; RemoveRoute removes it.
	AddRoute(ctx context.Context, r cloud.Route) error
	RemoveRoute(ctx context.Context, r cloud.Route) error
	// Routes are the destinations and next hops of all routes there are.
	Routes(ctx context.Context) ([]cloud.Route, error)

	// MakeVolume makes a volume and returns a PersistentVolume of it and its zone.
	MakeVolume(ctx context.Context) (pv *corev1.PersistentVolume, zone string, err error)
	// DeleteVolume succeeds where there is none any more.
	DeleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error

	// Throttle has the cloud refuse requests as too many until undo; reason says why that
	// cannot be had.
	Throttle() (undo func(), reason string)
	// Left lists the objects that carry the marks of a Service.
	Left(ctx context.Context, ref cloud.LoadBalancerRef) ([]string, error)
	// Everything lists all objects that there are, by kind, ID and name.
	Everything(ctx context.Context) ([]string, error)
}

// ErrNoAnnotation is World.Settings' answer for a feature that no annotation asks for, so that there is no wish
// that the provider could refuse. The feature must be declared unsupported.
var ErrNoAnnotation = errors.New("no annotation asks for it")

// HostName is what the Settings of LoadBalancerHostname ask for.
const HostName = "web.example.org"

// Instance is one that the World has made.
type Instance struct {
	Ref cloud.InstanceRef
	// Addresses are those that the Node is to have as InternalIPs.
	Addresses []netip.Addr
	Zone      string
	// MachineID is the UUID that the machine's kubelet reports; empty where it is none of the instance's.
	MachineID string
	// PodCIDRs are those that the cloud has given it; none where it gives none.
	PodCIDRs []netip.Prefix
}

// Address is a public address that is the user's.
type Address struct {
	IP netip.Addr
	// Settings are the annotations that ask for it; without, spec.loadBalancerIP does.
	Settings cloud.Settings
	// Release gives it back, and fails when it is gone.
	Release func(context.Context) error
}

// LoadBalancer is what the cloud says of a load balancer.
type LoadBalancer struct {
	ID string
	// Hostname is the name that the cloud has given it, under which it is published; empty where it gives none.
	Hostname string
	// Private are its addresses in the cluster's network, Public those that lead to them.
	Private, Public []netip.Addr
	Listeners       []Listener
}

// Listener is one port of a load balancer with all that is behind it.
type Listener struct {
	Port     int32
	Protocol corev1.Protocol
	// HTTP and TLS are done by the load balancer; ForwardedFor adds the header X-Forwarded-For.
	HTTP, ForwardedFor, TLS bool
	// Proxy is the version of the PROXY protocol, 0 for none.
	Proxy int
	// Clients are those let in; empty lets in everyone.
	Clients []netip.Prefix
	// Affinity keeps a client with its member.
	Affinity bool
	// Members are where traffic goes; sorted.
	Members []netip.AddrPort
	// CheckPath and CheckPort are those of an HTTP health check of the members; empty for none.
	CheckPath string
	CheckPort int32
}

func (s *Setup) complete() error {
	if s.New == nil || s.NewDenied == nil || s.World == nil {
		return errors.New("cloudtest: New, NewDenied and World are required")
	}
	known := Features()
	for f, reason := range s.Unsupported {
		if !slices.Contains(known, f) {
			return fmt.Errorf("cloudtest: Unsupported names %q, which is no feature", f)
		}
		if reason == "" {
			return fmt.Errorf("cloudtest: Unsupported gives no reason for %s", f)
		}
	}
	if s.Patience == 0 {
		s.Patience = 2 * time.Minute
	}
	return nil
}
