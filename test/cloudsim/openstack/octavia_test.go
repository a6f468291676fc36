package openstack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/providers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func octavia(t *testing.T, sim *ossim.Sim) *gophercloud.ServiceClient {
	return serviceClient(t, sim, openstack.NewLoadBalancerV2)
}

// settled waits until a load balancer is no longer pending.
func settled(t *testing.T, c *gophercloud.ServiceClient, id string) *loadbalancers.LoadBalancer {
	t.Helper()
	var lb *loadbalancers.LoadBalancer
	eventually.True(t, "load balancer no longer pending", func() bool {
		lb = must[*loadbalancers.LoadBalancer](t)(loadbalancers.Get(t.Context(), c, id).Extract())
		return !strings.HasPrefix(lb.ProvisioningStatus, "PENDING")
	})
	return lb
}

// full is a fully populated load balancer of one TCP listener.
func full(sim *ossim.Sim, port int, members ...pools.CreateMemberOpts) loadbalancers.CreateOpts {
	return loadbalancers.CreateOpts{
		Name: "lb", VipSubnetID: sim.Defaults().SubnetID, Tags: []string{"mine"},
		Listeners: []listeners.CreateOpts{{
			Name: "l0", Protocol: listeners.ProtocolTCP, ProtocolPort: port, Tags: []string{"mine"},
			DefaultPool: &pools.CreateOpts{Name: "p0", Protocol: pools.ProtocolTCP, LBMethod: pools.LBMethodRoundRobin, Members: members},
		}},
	}
}

func createLB(t *testing.T, c *gophercloud.ServiceClient, opts loadbalancers.CreateOpts) *loadbalancers.LoadBalancer {
	t.Helper()
	lb := must[*loadbalancers.LoadBalancer](t)(loadbalancers.Create(t.Context(), c, opts).Extract())
	if lb.ProvisioningStatus != "PENDING_CREATE" {
		t.Errorf("new load balancer is %s", lb.ProvisioningStatus)
	}
	lb = settled(t, c, lb.ID)
	if lb.ProvisioningStatus != "ACTIVE" || lb.OperatingStatus != "ONLINE" && lb.OperatingStatus != "DEGRADED" {
		t.Fatalf("load balancer is %s, %s", lb.ProvisioningStatus, lb.OperatingStatus)
	}
	return lb
}

func deleteLB(t *testing.T, c *gophercloud.ServiceClient, id string) {
	t.Helper()
	if err := loadbalancers.Delete(t.Context(), c, id, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "load balancer gone", func() bool {
		_, err := loadbalancers.Get(t.Context(), c, id).Extract()
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound)
	})
}

func TestOctaviaAbout(t *testing.T) {
	sim := ossim.ForTest(t)
	c := octavia(t, sim)
	root := *c
	root.Endpoint = sim.URL() + "/load-balancer/"
	pages, err := apiversions.List(&root).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	versions := must[[]apiversions.APIVersion](t)(apiversions.ExtractAPIVersions(pages))
	if n := len(versions); n != 27 || versions[n-1].ID != "v2.26" {
		t.Errorf("versions %v", versions)
	}
	pages, err = providers.List(c, nil).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := must[[]providers.Provider](t)(providers.ExtractProviders(pages)); len(got) != 3 {
		t.Errorf("providers %v", got)
	}
}

func TestFullyPopulatedCreateAndCascade(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: 30 * time.Millisecond})
	c := octavia(t, sim)
	before := sim.Snapshot()
	opts := full(sim, 8080, pools.CreateMemberOpts{Address: "10.0.0.5", ProtocolPort: 30080, Name: "n1"}, pools.CreateMemberOpts{Address: "10.0.0.6", ProtocolPort: 30080})
	opts.Listeners[0].DefaultPool.Monitor = &monitors.CreateOpts{Type: "TCP", Delay: 5, Timeout: 3, MaxRetries: 1}
	lb := createLB(t, c, opts)
	if sim.Count("load-balancer", "POST") != 1 {
		t.Error("more than one call")
	}
	now := sim.Snapshot()
	if len(now.Listeners) != 1 || len(now.Pools) != 1 || len(now.Members) != 2 || len(now.HealthMonitors) != 1 {
		t.Errorf("made: %+v", now)
	}
	p := must[*ports.Port](t)(ports.Get(t.Context(), neutron(t, sim), lb.VipPortID).Extract())
	if p.Name != "octavia-lb-"+lb.ID || p.DeviceOwner != "Octavia" || p.DeviceID != "lb-"+lb.ID || p.FixedIPs[0].IPAddress != lb.VipAddress {
		t.Errorf("VIP port %+v", p)
	}
	tree := must[*loadbalancers.StatusTree](t)(loadbalancers.GetStatuses(t.Context(), c, lb.ID).Extract())
	if l := tree.Loadbalancer.Listeners[0]; l.ProvisioningStatus != "ACTIVE" || len(l.Pools) != 1 || len(l.Pools[0].Members) != 2 {
		t.Errorf("status tree %+v", tree.Loadbalancer)
	}
	refused(t, loadbalancers.Delete(t.Context(), c, lb.ID, nil).ExtractErr(), http.StatusBadRequest)
	deleteLB(t, c, lb.ID)
	if diff := cmp.Diff(before, sim.Snapshot()); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

func TestImmutableWhilePending(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true})
	release := sim.HoldStates()
	c := octavia(t, sim)
	lb := must[*loadbalancers.LoadBalancer](t)(loadbalancers.Create(t.Context(), c, full(sim, 8080)).Extract())
	_, err := listeners.Create(t.Context(), c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 81}).Extract()
	refused(t, err, http.StatusConflict)
	if !strings.Contains(err.Error(), "Load Balancer "+lb.ID+" is immutable and cannot be updated.") {
		t.Errorf("refusal: %v", err)
	}
	_, err = loadbalancers.Update(t.Context(), c, lb.ID, loadbalancers.UpdateOpts{Name: new("x")}).Extract()
	refused(t, err, http.StatusConflict)
	if !strings.Contains(err.Error(), "Invalid state PENDING_CREATE of loadbalancer resource "+lb.ID) {
		t.Errorf("refusal: %v", err)
	}
	refused(t, loadbalancers.Delete(t.Context(), c, lb.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(), http.StatusConflict)
	release()
	settled(t, c, lb.ID)
	l := must[*listeners.Listener](t)(listeners.Create(t.Context(), c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "UDP", ProtocolPort: 8080}).Extract())
	if got := settled(t, c, lb.ID); len(got.Listeners) != 2 {
		t.Errorf("listeners %v", got.Listeners)
	}
	l = must[*listeners.Listener](t)(listeners.Get(t.Context(), c, l.ID).Extract())
	if l.ProvisioningStatus != "ACTIVE" || l.ConnLimit != -1 || l.TimeoutClientData != 50000 {
		t.Errorf("listener %+v", l)
	}
}

func TestStepByStep(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	lb := createLB(t, c, loadbalancers.CreateOpts{Name: "lb", VipSubnetID: sim.Defaults().SubnetID})
	l := must[*listeners.Listener](t)(listeners.Create(t.Context(), c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: "TCP", ProtocolPort: 8080, AllowedCIDRs: []string{"10.0.0.0/8"}}).Extract())
	settled(t, c, lb.ID)
	for _, port := range []struct {
		protocol listeners.Protocol
		status   int
	}{{"TCP", http.StatusConflict}, {"HTTP", http.StatusConflict}} {
		_, err := listeners.Create(t.Context(), c, listeners.CreateOpts{LoadbalancerID: lb.ID, Protocol: port.protocol, ProtocolPort: 8080}).Extract()
		refused(t, err, port.status)
	}
	p := must[*pools.Pool](t)(pools.Create(t.Context(), c, pools.CreateOpts{ListenerID: l.ID, Protocol: "TCP", LBMethod: "ROUND_ROBIN", Persistence: &pools.SessionPersistence{Type: "SOURCE_IP"}}).Extract())
	settled(t, c, lb.ID)
	batch := func(members ...pools.BatchUpdateMemberOpts) {
		t.Helper()
		if err := pools.BatchUpdateMembers(t.Context(), c, p.ID, members).ExtractErr(); err != nil {
			t.Fatal(err)
		}
		settled(t, c, lb.ID)
	}
	addresses := func() []string {
		t.Helper()
		pages, err := pools.ListMembers(c, p.ID, nil).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range must[[]pools.Member](t)(pools.ExtractMembers(pages)) {
			out = append(out, m.Address)
		}
		return out
	}
	batch(pools.BatchUpdateMemberOpts{Address: "10.0.0.5", ProtocolPort: 80}, pools.BatchUpdateMemberOpts{Address: "10.0.0.6", ProtocolPort: 80})
	batch(pools.BatchUpdateMemberOpts{Address: "10.0.0.6", ProtocolPort: 80}, pools.BatchUpdateMemberOpts{Address: "10.0.0.7", ProtocolPort: 80})
	if diff := cmp.Diff([]string{"10.0.0.6", "10.0.0.7"}, addresses()); diff != "" {
		t.Error(diff)
	}
	h := must[*monitors.Monitor](t)(monitors.Create(t.Context(), c, monitors.CreateOpts{PoolID: p.ID, Type: "HTTP", Delay: 5, Timeout: 3, MaxRetries: 1}).Extract())
	settled(t, c, lb.ID)
	if h.URLPath != "/" || h.ExpectedCodes != "200" || h.MaxRetriesDown != 3 {
		t.Errorf("monitor %+v", h)
	}
	l = must[*listeners.Listener](t)(listeners.Update(t.Context(), c, l.ID, listeners.UpdateOpts{AllowedCIDRs: &[]string{}, Tags: &[]string{"x"}}).Extract())
	settled(t, c, lb.ID)
	if len(l.AllowedCIDRs) != 0 || l.DefaultPoolID != p.ID || len(l.Tags) != 1 {
		t.Errorf("listener %+v", l)
	}
	if err := pools.Delete(t.Context(), c, p.ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	settled(t, c, lb.ID)
	now := sim.Snapshot()
	if len(now.Pools)+len(now.Members)+len(now.HealthMonitors) != 0 || len(now.Listeners) != 1 {
		t.Errorf("after the pool's end: %+v", now)
	}
	if l = must[*listeners.Listener](t)(listeners.Get(t.Context(), c, l.ID).Extract()); l.DefaultPoolID != "" {
		t.Errorf("listener still has pool %s", l.DefaultPoolID)
	}
}

func TestLoadBalancerFilters(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	a := createLB(t, c, loadbalancers.CreateOpts{Name: "a", VipSubnetID: sim.Defaults().SubnetID, Tags: []string{"x", "y"}})
	createLB(t, c, loadbalancers.CreateOpts{Name: "b", VipSubnetID: sim.Defaults().SubnetID, Provider: "ovn"})
	for name, tt := range map[string]struct {
		opts loadbalancers.ListOpts
		want int
	}{
		"all": {loadbalancers.ListOpts{}, 2}, "name": {loadbalancers.ListOpts{Name: "a"}, 1}, "tags": {loadbalancers.ListOpts{Tags: []string{"x", "y"}}, 1},
		"other tag": {loadbalancers.ListOpts{Tags: []string{"x", "z"}}, 0}, "any tag": {loadbalancers.ListOpts{TagsAny: []string{"x", "z"}}, 1},
		"port": {loadbalancers.ListOpts{VipPortID: a.VipPortID}, 1}, "provider": {loadbalancers.ListOpts{Provider: "ovn"}, 1},
		"pages": {loadbalancers.ListOpts{Limit: 1}, 2},
	} {
		pages, err := loadbalancers.List(c, tt.opts).AllPages(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := must[[]loadbalancers.LoadBalancer](t)(loadbalancers.ExtractLoadBalancers(pages)); len(got) != tt.want {
			t.Errorf("%s: %d load balancers, want %d", name, len(got), tt.want)
		}
	}
}

func TestOVNRefusals(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	before := sim.Snapshot()
	opts := full(sim, 8080)
	opts.Provider = "ovn"
	for want, change := range map[string]func(*listeners.CreateOpts){
		"OVN provider does not support ROUND_ROBIN algorithm": func(*listeners.CreateOpts) {},
		"OVN provider does not support allowed_cidrs option": func(l *listeners.CreateOpts) {
			l.DefaultPool.LBMethod = "SOURCE_IP_PORT"
			l.AllowedCIDRs = []string{"10.0.0.0/8"}
		},
		"OVN provider does not support HTTP protocol": func(l *listeners.CreateOpts) {
			l.DefaultPool.LBMethod, l.Protocol, l.DefaultPool.Protocol = "SOURCE_IP_PORT", "HTTP", "HTTP"
		},
	} {
		l := opts.Listeners[0]
		pool := *l.DefaultPool
		l.DefaultPool = &pool
		change(&l)
		with := opts
		with.Listeners = []listeners.CreateOpts{l}
		_, err := loadbalancers.Create(t.Context(), c, with).Extract()
		refused(t, err, http.StatusNotImplemented)
		if err == nil || !strings.Contains(err.Error(), "Provider 'ovn' does not support a requested option: "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if diff := cmp.Diff(before, sim.Snapshot()); diff != "" {
		t.Errorf("refused creations left:\n%s", diff)
	}
	lb := createLB(t, c, loadbalancers.CreateOpts{Name: "lb", VipSubnetID: sim.Defaults().SubnetID, Provider: "ovn"})
	p := must[*ports.Port](t)(ports.Get(t.Context(), neutron(t, sim), lb.VipPortID).Extract())
	if p.Name != "ovn-lb-vip-"+lb.ID || p.DeviceOwner != "" || p.DeviceID != "" {
		t.Errorf("VIP port %+v", p)
	}
}

func TestRefusedCreateLeaksAsZedDoes(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1, LeakVIPPorts: true})
	opts := full(sim, 8080)
	opts.Provider = "ovn"
	_, err := loadbalancers.Create(t.Context(), octavia(t, sim), opts).Extract()
	refused(t, err, http.StatusNotImplemented)
	var leaked []string
	for _, p := range sim.Snapshot().Ports {
		if strings.HasPrefix(p.Name, "ovn-lb-vip-") {
			leaked = append(leaked, p.Name)
		}
	}
	if len(leaked) != 1 {
		t.Errorf("leaked ports %v", leaked)
	}
}

func TestFloatingIPOfAVIP(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	before := sim.Snapshot()
	lb := createLB(t, c, full(sim, 8080))
	n := neutron(t, sim)
	f := must[*floatingips.FloatingIP](t)(floatingips.Create(t.Context(), n, floatingips.CreateOpts{FloatingNetworkID: sim.Defaults().ExternalNetworkID, PortID: lb.VipPortID}).Extract())
	deleteLB(t, c, lb.ID)
	f = must[*floatingips.FloatingIP](t)(floatingips.Get(t.Context(), n, f.ID).Extract())
	if f.PortID != "" {
		t.Errorf("floating IP still leads to port %s", f.PortID)
	}
	if err := floatingips.Delete(t.Context(), n, f.ID).Err; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, sim.Snapshot()); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}
