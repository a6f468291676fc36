package openstack

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/occm"
)

// occmName is what OCCM calls the load balancer of a Service, and tags what is the Service's.
func occmName(service string) string { return "kube_service_kubernetes_default_" + service }

// occm is OCCM in the test's cloud.
func (x *lbTest) occm(provider string, monitors bool) *occm.Cloud {
	o, cfg := x.op(), x.lbs.c.cfg.LoadBalancer
	return &occm.Cloud{LoadBalancer: o.octavia, Network: o.neutron, SubnetID: cfg.SubnetID, FloatingNetworkID: cfg.FloatingNetworkID, Provider: provider, Monitors: monitors}
}

// madeBy makes a load balancer for the Service as OCCM does.
func (x *lbTest) madeBy(m *occm.Cloud, spec *cloud.LoadBalancerSpec) *octaviaLB {
	x.t.Helper()
	id, address, err := m.Make(testContext(x.t), spec)
	if err != nil {
		x.t.Fatal(err)
	}
	published(spec, id, address)
	return x.lb(id)
}

// shareBy puts the Service's listeners on a load balancer that is there already, as OCCM does.
func (x *lbTest) shareBy(m *occm.Cloud, spec *cloud.LoadBalancerSpec, id, address string) {
	x.t.Helper()
	if err := m.Share(testContext(x.t), spec, id); err != nil {
		x.t.Fatal(err)
	}
	published(spec, id, address)
}

// published is what the Service has of its load balancer.
func published(spec *cloud.LoadBalancerSpec, id, address string) {
	spec.Settings[annLoadBalancerID], spec.Settings[annAddress] = id, address
	spec.CurrentIngress = []corev1.LoadBalancerIngress{{IP: address}}
}

// TestTakeover: of every kind of load balancer that OCCM makes. Taking over adds the owner's
// tag, where the load balancer was made for the Service, and changes nothing else; OCCM finds
// what it made as it made it. Deleting the Service afterwards leaves nothing of it.
func TestTakeover(t *testing.T) {
	one := func(s *cloud.LoadBalancerSpec) { s.Ports = s.Ports[:1] }
	for _, tt := range []struct {
		name     string
		provider string
		monitors bool
		spec     func(*cloud.LoadBalancerSpec)
	}{
		{name: "TCP and UDP"},
		{name: "monitors", monitors: true},
		{name: "HTTP", spec: func(s *cloud.LoadBalancerSpec) { one(s); s.Settings[annForwardedFor] = "true" }},
		{name: "TLS", spec: func(s *cloud.LoadBalancerSpec) { one(s); s.Settings[annTLSContainerRef] = "secret" }},
		{name: "PROXY", spec: func(s *cloud.LoadBalancerSpec) { one(s); s.Settings[annProxyProtocol] = "true" }},
		{name: "session affinity", spec: func(s *cloud.LoadBalancerSpec) { s.SessionAffinityTimeout = 3 * time.Hour }},
		{name: "policy Local", monitors: true, spec: func(s *cloud.LoadBalancerSpec) {
			one(s)
			s.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
		}},
		{name: "policy Local without monitors", spec: func(s *cloud.LoadBalancerSpec) {
			one(s)
			s.HealthCheck = &cloud.HealthCheck{Port: 31000, Path: "/healthz"}
		}},
		{name: "internal", spec: func(s *cloud.LoadBalancerSpec) { s.Settings[annInternal] = "true" }},
		{name: "no members", spec: func(s *cloud.LoadBalancerSpec) { s.Members = nil }},
		{name: "ovn", provider: "ovn"},
		{name: "ovn internal", provider: "ovn", spec: func(s *cloud.LoadBalancerSpec) { s.Settings[annInternal] = "true" }},
	} {
		for _, jobboard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s jobboard=%v", tt.name, jobboard), func(t *testing.T) {
				provider := cmp.Or(tt.provider, "amphora")
				x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, Jobboard: jobboard}, 3, fmt.Sprintf("lb-provider=%s\ncreate-monitor=%v\n", provider, tt.monitors))
				t.Cleanup(func() { logCalls(t, x.sim) })
				if tt.spec != nil {
					tt.spec(x.spec)
				}
				if x.spec.Settings[annTLSContainerRef] != "" {
					x.spec.Settings[annTLSContainerRef] = x.certificate()
				}
				lb := x.madeBy(x.occm(provider, tt.monitors), x.spec)
				x.takeOver(x.spec, lb, []string{occmName("web")}, 1)
				x.delete(x.spec)
				x.wantNothing("after the deletion")
			})
		}
	}
}

// takeOver ensures the Service, twice with each of two processes, and checks what changes.
func (x *lbTest) takeOver(spec *cloud.LoadBalancerSpec, lb *octaviaLB, tags []string, changes int) {
	x.t.Helper()
	before, tree := x.objects(), x.treeOf(lb.ID)
	address := spec.Settings[annAddress]
	var made []string
	for i := range 2 {
		x.restart()
		if i > 0 { // not in the second of the last change, so that a snapshot is believed
			x.lbs.now = func() time.Time { return time.Now().Add(time.Hour) }
		}
		for range 2 {
			status := x.ensure(spec)
			if status.Annotations[annLoadBalancerID] != lb.ID || status.Annotations[annAddress] != address || len(status.Warnings) > 0 {
				x.t.Errorf("status %+v, want load balancer %s with address %s and no warnings", status, lb.ID, address)
			}
		}
		for _, r := range x.sim.Requests() {
			if r.Service != "identity" && r.Method != http.MethodGet {
				made = append(made, r.Method+" "+r.Path)
			}
		}
	}
	if len(made) != changes {
		x.t.Errorf("taking over makes the changes %q, want %d", made, changes)
	}
	if changes > 0 {
		tags = append(slices.Clone(tags), "isthmus-cluster="+testCluster.UID)
	}
	if got := x.lb(lb.ID); !sameTags(got.Tags, tags) || got.Name != lb.Name || got.Description != lb.Description {
		x.t.Errorf("load balancer %+v, want tags %q and all else as it was", got, tags)
	}
	if after := x.objects(); !slices.Equal(before, after) {
		x.t.Errorf("objects %q became %q", before, after)
	}
	for i, l := range x.treeOf(lb.ID).Listeners {
		if !slices.Equal(l.Tags, tree.Listeners[i].Tags) {
			x.t.Errorf("tags of listener %s: %q became %q", l.Name, tree.Listeners[i].Tags, l.Tags)
		}
	}
}

func (x *lbTest) treeOf(id string) *lbTree {
	x.t.Helper()
	tree, err := readTree(testContext(x.t), x.op().octavia, id)
	if err != nil {
		x.t.Fatal(err)
	}
	return tree
}

// TestTakeoverShared: two Services on a load balancer that was made for the first, and two on
// one that a user has made.
func TestTakeoverShared(t *testing.T) {
	for _, users := range []bool{false, true} {
		t.Run(fmt.Sprintf("user's own=%v", users), func(t *testing.T) {
			x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond}, 2, "")
			m := x.occm("amphora", false)
			t.Cleanup(func() { logCalls(t, x.sim) })
			second := x.sharer("second", "", 9000)
			tags := []string{occmName("web"), occmName("second")}
			var lb *octaviaLB
			changes := 1
			if users {
				x.spec.Settings[annInternal], second.Settings[annInternal] = "true", "true"
				lb = x.makeLB(loadbalancers.CreateOpts{Name: "users-own", Tags: []string{"theirs"}})
				x.shareBy(m, x.spec, lb.ID, lb.VIPAddress)
				tags, changes = append(tags, "theirs"), 0
			} else {
				lb = x.madeBy(m, x.spec)
			}
			x.shareBy(m, second, lb.ID, x.spec.Settings[annAddress])
			x.takeOver(second, lb, tags, 0)
			x.takeOver(x.spec, lb, tags, changes)
			x.delete(x.spec)
			want := []string{"theirs", occmName("second")}
			if !users {
				want = []string{occmName("second"), "isthmus-cluster=" + testCluster.UID}
			}
			if got := x.lb(lb.ID).Tags; !sameTags(got, want) {
				t.Errorf("tags %q after the first Service has gone, want %q", got, want)
			}
			if s := x.sim.Snapshot(); len(s.Listeners) != 1 || len(s.Pools) != 1 {
				t.Errorf("objects %q, want the second Service's listener", x.objects())
			}
			x.delete(second)
			if left := x.ids(); users && (len(left) != 1 || !slices.Equal(x.lb(lb.ID).Tags, []string{"theirs"})) || !users && len(left) != 0 {
				t.Errorf("load balancers %q are left", left)
			}
		})
	}
}

// certificate puts a PKCS#12 bundle into Barbican, as far as the simulator looks at it.
func (x *lbTest) certificate() string {
	x.t.Helper()
	sc, err := x.lbs.c.service(testContext(x.t), "key-manager")
	if err != nil {
		x.t.Fatal(err)
	}
	made, err := secrets.Create(testContext(x.t), sc, secrets.CreateOpts{Name: "certificate", Payload: "AAEC/w==", PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64"}).Extract()
	if err != nil {
		x.t.Fatal(err)
	}
	return made.SecretRef
}
