package callbudget

import (
	"context"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

var throttleCluster = cloud.Cluster{Name: "kubernetes", UID: "uid", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}

// ensure asks for a Service's load balancer, for at most d.
func (f *fleet) ensure(name string, d time.Duration) error {
	spec := &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: throttleCluster, Namespace: "default", Name: name, UID: "uid-" + name},
		Ports:           []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
	}
	for _, s := range f.servers {
		spec.Members = append(spec.Members, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}, Addresses: s.Addresses})
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), d)
	defer cancel()
	_, err := f.provider.LoadBalancers.Ensure(ctx, spec)
	return err
}

// octavia counts the requests to the load balancer service, of which the root's is asked for
// its version only.
func (f *fleet) octavia() int { return f.sim.Count("load-balancer", "") }

// A refusal by one service, with a long wait, holds nothing but that service: Nodes are
// initialized, routes are read and made, volumes are found. The service itself is left alone
// until the wait is over, whoever asks.
func TestThrottledOctaviaHoldsNothingElse(t *testing.T) {
	f := newFleet(t, 5)
	volume := f.sim.AddVolume("v", "az1")
	f.sim.AddFault(ossim.Fault{Service: "load-balancer", Status: 429, RetryAfter: time.Minute, Times: 1})
	if err := f.ensure("first", 30*time.Second); cloud.KindOf(err) != cloud.KindThrottled {
		t.Fatalf("the first Service: %v", err)
	}
	asked := f.octavia()
	f.initialize()
	if _, err := f.provider.Routes.List(t.Context(), throttleCluster); err != nil {
		t.Errorf("list routes: %v", err)
	}
	route := cloud.Route{Destination: netip.MustParsePrefix("10.244.0.0/24"), NextHop: f.servers[0].Addresses[0], Node: f.refs[0]}
	if err := f.provider.Routes.Apply(t.Context(), throttleCluster, []cloud.Route{route}, nil)[0]; err != nil {
		t.Errorf("make a route: %v", err)
	}
	if r := f.provider.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: volume.ID}})[0]; r.Err != nil {
		t.Errorf("find a volume: %v", r.Err)
	}
	if err := f.ensure("second", 30*time.Second); cloud.KindOf(err) != cloud.KindThrottled || cloud.RetryAfter(err) <= 0 {
		t.Errorf("the second Service: %v", err)
	}
	if got := f.octavia(); asked == 0 || got != asked {
		t.Errorf("Octavia was asked %d times before, %d while it throttles, want none", asked, got-asked)
	}
	f.clock.advance(time.Minute)
	if err := f.ensure("second", 30*time.Second); cloud.KindOf(err) == cloud.KindThrottled || f.octavia() == asked {
		t.Errorf("the second Service afterwards: %v", err)
	}
}

// The same of one region: the others' Nodes and routes are looked after, and it is left alone.
func TestThrottledRegionHoldsNoOther(t *testing.T) {
	one := ossim.ForTest(t)
	two, err := ossim.Start(ossim.Options{Keystone: one, Region: "RegionTwo"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(two.Close)
	f := newFleetOf(t, 3, one, "\n[Region \"RegionTwo\"]\nrouter-id = "+two.Defaults().RouterID+"\n", 2*time.Minute)
	server := two.SeedServers(ossim.Seed{Count: 1, NamePrefix: "two-"})[0]
	other := cloud.InstanceRef{NodeName: server.Name, ProviderID: "openstack://RegionTwo/" + server.ID}
	for n, s := range f.servers {
		f.refs[n].ProviderID = "openstack:///" + s.ID
	}
	refs := append(f.refs[:len(f.refs):len(f.refs)], other)
	peers := &instancecache.Peers{List: func() []cloud.InstanceRef { return refs }}
	for _, service := range []string{"compute", "network"} {
		two.AddFault(ossim.Fault{Service: service, Status: 429, RetryAfter: time.Minute, Times: 1})
	}
	if _, err := f.provider.Routes.List(t.Context(), throttleCluster); err != nil {
		t.Errorf("list routes: %v", err)
	}
	look := func() {
		t.Helper()
		if _, err := f.provider.Nodes.Lookup(t.Context(), other, 0, peers); err == nil || cloud.IsNotFound(err) {
			t.Errorf("a Node of the region that throttles: %v", err)
		}
		for _, ref := range f.refs {
			if _, err := f.provider.Nodes.Lookup(t.Context(), ref, 0, peers); err != nil {
				t.Errorf("a Node of the other region: %v", err)
			}
		}
	}
	look()
	asked := len(two.Requests())
	look()
	if _, err := f.provider.Routes.List(t.Context(), throttleCluster); err != nil {
		t.Errorf("list routes: %v", err)
	}
	if got := len(two.Requests()); asked == 0 || got != asked {
		t.Errorf("the region was asked %d times before, %d while it throttles, want none", asked, got-asked)
	}
	f.clock.advance(time.Minute)
	if _, err := f.provider.Nodes.Lookup(t.Context(), other, 0, peers); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
