package openstack

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// occm makes what openstack-cloud-controller-manager makes, by the raw API and from the facts
// about it alone: its names, descriptions, tags and values, with nothing of ours.
type occm struct {
	x        *lbTest
	provider string
	monitors bool
}

func occmName(service string) string { return "kube_service_kubernetes_default_" + service }

func occmText(service string) string {
	return "Kubernetes external service default/" + service + " from cluster kubernetes"
}

func (m occm) listeners(spec *cloud.LoadBalancerSpec) []listeners.CreateOpts {
	name := occmName(spec.Name)
	limit, client, connect, member, inspect := -1, 50000, 5000, 50000, 0
	var out []listeners.CreateOpts
	for i, p := range spec.Ports {
		l := listeners.CreateOpts{
			Name: fmt.Sprintf("listener_%d_%s", i, name), Protocol: listeners.Protocol(p.Protocol), ProtocolPort: int(p.Port), ConnLimit: &limit, Tags: []string{name},
		}
		poolProtocol, method := string(p.Protocol), "ROUND_ROBIN"
		if m.provider == "ovn" {
			method = "SOURCE_IP_PORT"
		} else {
			l.TimeoutClientData, l.TimeoutMemberConnect, l.TimeoutMemberData, l.TimeoutTCPInspect = &client, &connect, &member, &inspect
			l.AllowedCIDRs = []string{"0.0.0.0/0"}
		}
		if p.Protocol == corev1.ProtocolTCP {
			if spec.Settings[annForwardedFor] == "true" {
				l.Protocol, poolProtocol, l.InsertHeaders = "HTTP", "HTTP", map[string]string{"X-Forwarded-For": "true"}
			}
			if ref := spec.Settings[annTLSContainerRef]; ref != "" {
				l.Protocol, poolProtocol, l.DefaultTlsContainerRef = "TERMINATED_HTTPS", "HTTP", ref
			}
			switch spec.Settings[annProxyProtocol] {
			case "true", "v1":
				poolProtocol = "PROXY"
			case "v2":
				poolProtocol = "PROXYV2"
			}
		}
		pool := &pools.CreateOpts{Name: fmt.Sprintf("pool_%d_%s", i, name), Protocol: pools.Protocol(poolProtocol), LBMethod: pools.LBMethod(method)}
		if spec.SessionAffinityTimeout > 0 {
			pool.Persistence = &pools.SessionPersistence{Type: "SOURCE_IP"}
		}
		for _, n := range spec.Members {
			opts := pools.CreateMemberOpts{Name: n.Node.NodeName, Address: n.Addresses[0].String(), ProtocolPort: int(p.NodePort), SubnetID: m.x.lbs.c.cfg.LoadBalancer.SubnetID}
			if spec.HealthCheck != nil {
				port := int(spec.HealthCheck.Port)
				opts.MonitorPort = &port
			}
			pool.Members = append(pool.Members, opts)
		}
		if m.monitors && m.provider != "ovn" {
			pool.Monitor = m.monitor(spec, i, p)
		}
		l.DefaultPool = pool
		out = append(out, l)
	}
	return out
}

func (m occm) monitor(spec *cloud.LoadBalancerSpec, i int, p cloud.LoadBalancerPort) monitors.CreateOpts {
	opts := monitors.CreateOpts{Name: fmt.Sprintf("monitor_%d_%s", i, occmName(spec.Name)), Type: "TCP", Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3}
	switch {
	case spec.HealthCheck != nil:
		opts.Type, opts.URLPath, opts.HTTPMethod, opts.ExpectedCodes = "HTTP", "/healthz", "GET", "200"
	case p.Protocol == corev1.ProtocolUDP:
		opts.Type = "UDP-CONNECT"
	}
	return opts
}

// make makes a load balancer for the Service, with a floating IP unless it is internal.
func (m occm) make(spec *cloud.LoadBalancerSpec) *octaviaLB {
	name := occmName(spec.Name)
	lb := m.x.makeLB(loadbalancers.CreateOpts{Name: name, Description: occmText(spec.Name), Tags: []string{name}, Provider: m.provider, Listeners: m.listeners(spec)})
	address := lb.VIPAddress
	if spec.Settings[annInternal] != "true" {
		f, err := floatingips.Create(testContext(m.x.t), m.x.op().neutron, floatingips.CreateOpts{
			FloatingNetworkID: m.x.lbs.c.cfg.LoadBalancer.FloatingNetworkID, PortID: lb.VIPPortID, Description: "Floating IP for " + occmText(spec.Name)}).Extract()
		if err != nil {
			m.x.t.Fatal(err)
		}
		address = f.FloatingIP
	}
	m.published(spec, lb.ID, address)
	return lb
}

// share puts the Service's listeners on a load balancer that is there already.
func (m occm) share(spec *cloud.LoadBalancerSpec, lb *octaviaLB, address string) {
	o, ctx := m.x.op(), testContext(m.x.t)
	must := func(err error) {
		m.x.t.Helper()
		if err == nil {
			_, err = o.waitActive(ctx, lb.ID)
		}
		if err != nil {
			m.x.t.Fatal(err)
		}
	}
	tags := append(slices.Clone(m.x.lb(lb.ID).Tags), occmName(spec.Name))
	must(loadbalancers.Update(ctx, o.octavia, lb.ID, loadbalancers.UpdateOpts{Tags: &tags}).Err)
	for _, opts := range m.listeners(spec) {
		pool := opts.DefaultPool
		opts.DefaultPool, opts.LoadbalancerID = nil, lb.ID
		l, err := listeners.Create(ctx, o.octavia, opts).Extract()
		must(err)
		members := pool.Members
		pool.Members, pool.ListenerID = nil, l.ID
		p, err := pools.Create(ctx, o.octavia, *pool).Extract()
		must(err)
		for _, n := range members {
			_, err := pools.CreateMember(ctx, o.octavia, p.ID, n).Extract()
			must(err)
		}
	}
	m.published(spec, lb.ID, address)
}

// published is what the Service has of its load balancer.
func (m occm) published(spec *cloud.LoadBalancerSpec, id, address string) {
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
		{name: "internal", spec: func(s *cloud.LoadBalancerSpec) { s.Settings[annInternal] = "true" }},
		{name: "no members", spec: func(s *cloud.LoadBalancerSpec) { s.Members = nil }},
		{name: "ovn", provider: "ovn"},
		{name: "ovn internal", provider: "ovn", spec: func(s *cloud.LoadBalancerSpec) { s.Settings[annInternal] = "true" }},
	} {
		for _, jobboard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s jobboard=%v", tt.name, jobboard), func(t *testing.T) {
				m := occm{provider: "amphora", monitors: tt.monitors}
				if tt.provider != "" {
					m.provider = tt.provider
				}
				m.x = newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond, Jobboard: jobboard}, 3, fmt.Sprintf("lb-provider=%s\ncreate-monitor=%v\n", m.provider, tt.monitors))
				x := m.x
				t.Cleanup(func() { logCalls(t, x.sim) })
				if tt.spec != nil {
					tt.spec(x.spec)
				}
				if x.spec.Settings[annTLSContainerRef] != "" {
					x.spec.Settings[annTLSContainerRef] = x.certificate()
				}
				lb := m.make(x.spec)
				m.takeOver(x.spec, lb, []string{occmName("web")}, 1)
				x.delete(x.spec)
				x.wantNothing("after the deletion")
			})
		}
	}
}

// takeOver ensures the Service, twice with each of two processes, and checks what changes.
func (m occm) takeOver(spec *cloud.LoadBalancerSpec, lb *octaviaLB, tags []string, changes int) {
	x := m.x
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
			m := occm{provider: "amphora", x: newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond}, 2, "")}
			x := m.x
			t.Cleanup(func() { logCalls(t, x.sim) })
			second := x.sharer("second", "", 9000)
			tags := []string{occmName("web"), occmName("second")}
			var lb *octaviaLB
			changes := 1
			if users {
				x.spec.Settings[annInternal], second.Settings[annInternal] = "true", "true"
				lb = x.makeLB(loadbalancers.CreateOpts{Name: "users-own", Tags: []string{"theirs"}})
				m.share(x.spec, lb, lb.VIPAddress)
				tags, changes = append(tags, "theirs"), 0
			} else {
				lb = m.make(x.spec)
			}
			m.share(second, lb, x.spec.Settings[annAddress])
			m.takeOver(second, lb, tags, 0)
			m.takeOver(x.spec, lb, tags, changes)
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
