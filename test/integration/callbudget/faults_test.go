package callbudget

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/instancecache"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// stumbling are ways in which real clouds refuse a request and answer it a moment later.
var stumbling = map[string]ossim.Fault{
	"429":                         {Status: 429},
	"429, Retry-After in seconds": {Status: 429, RetryAfter: time.Second},
	"429, Retry-After as a date":  {Status: 429, RetryAfter: time.Second, RetryAfterDate: true},
	"500":                         {Status: 500},
	"502 of a proxy":              {Status: 502, Body: "<html><h1>502 Bad Gateway</h1></html>"},
	"503, Retry-After":            {Status: 503, RetryAfter: time.Second},
	"504 of a proxy":              {Status: 504, Body: "upstream timed out"},
	"cut connection":              {Reset: true},
	"half an answer":              {Truncate: true},
}

// lost are those after which a request may have been carried out all the same.
var lost = []string{"502 of a proxy", "504 of a proxy", "cut connection"}

// OCCM has no retry on 429 and 5xx: one refused request fails a whole reconcile. Here it is
// sent again, as late as the cloud asks, whichever service it is, Keystone included.
func TestComplaintNoRetryOn429And5xx(t *testing.T) {
	for name, fault := range stumbling {
		for _, service := range []string{"compute", "network", "volume", "identity"} {
			t.Run(name+"/"+service, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, 5)
				volume := f.sim.AddVolume("v", "az1")
				if service == "identity" {
					f.sim.ExpireTokens()
				}
				fault := fault
				fault.Service, fault.Times = service, 1
				f.sim.AddFault(fault)
				began := time.Now()
				for _, ref := range f.refs {
					if _, err := f.provider.Nodes.Lookup(t.Context(), ref, instancecache.MetadataMaxAge, f.all); err != nil {
						t.Error(err)
					}
				}
				if r := f.provider.Volumes.Find(t.Context(), []cloud.VolumeRef{{ID: volume.ID}})[0]; r.Err != nil {
					t.Errorf("volume: %v", r.Err)
				}
				server := f.servers[0]
				route := cloud.Route{Destination: netip.MustParsePrefix("10.244.0.0/24"), NextHop: server.Addresses[0], Node: cloud.InstanceRef{NodeName: server.Name, ProviderID: "openstack:///" + server.ID}}
				cluster := cloud.Cluster{Name: "kubernetes", UID: "uid", PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
				if err := f.provider.Routes.Apply(t.Context(), cluster, []cloud.Route{route}, nil)[0]; err != nil {
					t.Errorf("route: %v", err)
				}
				if wait := time.Since(began); fault.Status == 429 && wait < fault.RetryAfter {
					t.Errorf("all was done after %s, although the cloud asked for %s", wait, fault.RetryAfter)
				}
				if n := f.sim.Count("identity", "POST"); service != "identity" && n != 0 {
					t.Errorf("%d tokens, although none was refused", n)
				}
			})
		}
	}
}

// The same of load balancers, of which each step of the making may be refused.
func TestComplaintNoRetryOfLoadBalancers(t *testing.T) {
	for name, fault := range stumbling {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, 2)
				spec := &cloud.LoadBalancerSpec{
					LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: "kubernetes", UID: "uid"}, Namespace: "default", Name: "web", UID: "svc"},
					Ports:           []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
					IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
				}
				for _, s := range f.servers {
					spec.Members = append(spec.Members, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}, Addresses: s.Addresses})
				}
				fault := fault
				fault.Service, fault.Method, fault.Times = "load-balancer", method, 1
				f.sim.AddFault(fault)
				var err error
				for range 20 {
					_, err = f.provider.LoadBalancers.Ensure(t.Context(), spec)
					if err == nil {
						break
					}
					if cloud.KindOf(err) != cloud.KindRetryAfter || strings.Contains(err.Error(), "gave up") {
						t.Fatalf("ensure: %v", err)
					}
				}
				lbs, posts := f.sim.LoadBalancers(), f.sim.Count("load-balancer", "POST")
				if method == "POST" && slices.Contains(lost, name) {
					// Octavia may still be at it: for a minute it is looked for, and no second one is made.
					if err == nil || !strings.Contains(err.Error(), "was lost") || posts != 1 || len(lbs) != 0 {
						t.Errorf("%d creations, load balancers %+v, error %v; want a creation that is not repeated", posts, lbs, err)
					}
				} else if err != nil || len(lbs) != 1 {
					t.Errorf("load balancers %+v, want one; error %v", lbs, err)
				}
			})
		}
	}
}
