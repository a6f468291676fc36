package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// occm makes in the cloud and in the cluster what openstack-cloud-controller-manager leaves:
// its names, descriptions, tags, values, annotations and finalizers.
type occm struct {
	c        *cluster
	sim      *ossim.Sim
	octavia  *gophercloud.ServiceClient
	neutron  *gophercloud.ServiceClient
	servers  []ossim.Server
	floating bool // whether load balancers get a floating IP
}

const occmPrefix = "kube_service_kubernetes_default_"

// listener is what it makes of a Service's port, with its pool, members and monitor.
func (o *occm) listener(i int, lb, tag string, p corev1.ServicePort) listeners.CreateOpts {
	limit, client, connect, member, inspect := -1, 50000, 5000, 50000, 0
	monitor := "TCP"
	if p.Protocol == corev1.ProtocolUDP {
		monitor = "UDP-CONNECT"
	}
	var members []pools.CreateMemberOpts
	for _, s := range o.servers {
		members = append(members, pools.CreateMemberOpts{Name: s.Name, Address: s.Addresses[0].String(), ProtocolPort: int(p.NodePort), SubnetID: o.sim.Defaults().SubnetID})
	}
	return listeners.CreateOpts{
		Name: fmt.Sprintf("listener_%d_%s", i, tag), Protocol: listeners.Protocol(p.Protocol), ProtocolPort: int(p.Port), ConnLimit: &limit,
		LoadbalancerID: lb, Tags: []string{tag},
		TimeoutClientData: &client, TimeoutMemberConnect: &connect, TimeoutMemberData: &member, TimeoutTCPInspect: &inspect,
		DefaultPool: &pools.CreateOpts{Name: fmt.Sprintf("pool_%d_%s", i, tag), Protocol: pools.Protocol(p.Protocol), LBMethod: "ROUND_ROBIN", Members: members,
			Monitor: monitors.CreateOpts{Name: fmt.Sprintf("monitor_%d_%s", i, tag), Type: monitor, Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3}},
	}
}

// serve makes the load balancers of Services; the first owns it, the others share it.
func (o *occm) serve(services ...*corev1.Service) *loadbalancers.LoadBalancer {
	t := o.c.t
	t.Helper()
	owner := occmPrefix + services[0].Name
	opts := loadbalancers.CreateOpts{Name: owner, VipSubnetID: o.sim.Defaults().SubnetID, Provider: "amphora",
		Description: "Kubernetes external service default/" + services[0].Name + " from cluster kubernetes"}
	for _, s := range services {
		tag := occmPrefix + s.Name
		opts.Tags = append(opts.Tags, tag)
		for i, p := range s.Spec.Ports {
			l := o.listener(i, "", tag, p)
			opts.Listeners = append(opts.Listeners, l)
		}
	}
	lb, err := loadbalancers.Create(t.Context(), o.octavia, opts).Extract()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, func() string {
		if lb, err = loadbalancers.Get(t.Context(), o.octavia, lb.ID).Extract(); err != nil || lb.ProvisioningStatus != "ACTIVE" {
			return fmt.Sprintf("load balancer %s: %s, %v", lb.ID, lb.ProvisioningStatus, err)
		}
		return ""
	})
	address := lb.VipAddress
	if o.floating {
		f, err := floatingips.Create(t.Context(), o.neutron, floatingips.CreateOpts{FloatingNetworkID: o.sim.Defaults().ExternalNetworkID, PortID: lb.VipPortID,
			Description: "Floating IP for Kubernetes external service default/" + services[0].Name + " from cluster kubernetes"}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		address = f.FloatingIP
	}
	for _, s := range services {
		o.publish(s, lb.ID, address)
	}
	return lb
}

// publish writes to the Service what it writes.
func (o *occm) publish(s *corev1.Service, id, address string) {
	o.c.t.Helper()
	updated := s.DeepCopy()
	updated.Finalizers = append(updated.Finalizers, servicehelper.LoadBalancerCleanupFinalizer)
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	updated.Annotations["loadbalancer.openstack.org/load-balancer-id"] = id
	updated.Annotations["loadbalancer.openstack.org/load-balancer-address"] = address
	mode := corev1.LoadBalancerIPModeVIP
	updated.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address, IPMode: &mode}}
	if _, err := servicehelper.PatchService(o.c.client.CoreV1(), s, updated); err != nil {
		o.c.t.Fatal(err)
	}
}

// route makes the route of a server's pod CIDR.
func (o *occm) route(i int, s ossim.Server) {
	t := o.c.t
	t.Helper()
	all, err := ports.List(o.neutron, ports.ListOpts{DeviceID: s.ID}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := ports.ExtractPorts(all)
	if err != nil || len(list) != 1 {
		t.Fatalf("ports of %s: %v, %v", s.Name, list, err)
	}
	pairs := []ports.AddressPair{{IPAddress: podCIDR(i)}}
	if err := ports.Update(t.Context(), o.neutron, list[0].ID, ports.UpdateOpts{AllowedAddressPairs: &pairs}).Err; err != nil {
		t.Fatal(err)
	}
	addRoutes(t, o.sim, routeTo(i, s))
}

// state is everything in the cloud as the API shows it, without what our marks change (tags,
// the time and the number of the last change) and what health checks find.
func (o *occm) state() string {
	t := o.c.t
	t.Helper()
	var out []string
	for _, list := range []struct {
		client *gophercloud.ServiceClient
		path   []string
	}{
		{o.octavia, []string{"lbaas", "loadbalancers"}}, {o.octavia, []string{"lbaas", "listeners"}}, {o.octavia, []string{"lbaas", "pools"}},
		{o.octavia, []string{"lbaas", "healthmonitors"}}, {o.neutron, []string{"floatingips"}}, {o.neutron, []string{"ports"}},
		{o.neutron, []string{"routers"}}, {o.neutron, []string{"security-groups"}},
	} {
		var doc map[string][]map[string]any
		resp, err := list.client.Get(t.Context(), list.client.ServiceURL(list.path...), &doc, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		for _, objects := range doc {
			for _, object := range objects {
				for _, ours := range []string{"tags", "updated_at", "revision_number", "operating_status"} {
					delete(object, ours)
				}
				text, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, strings.Join(list.path, "/")+" "+string(text))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (o *occm) mutations() []string {
	var out []string
	for _, r := range o.sim.Requests() {
		if r.Method != http.MethodGet && r.Service != "identity" {
			out = append(out, r.Service+" "+r.Method+" "+r.Path)
		}
	}
	return out
}

// ensured waits until the Services have been ensured and the routes compared, by the events
// and requests since the last reset.
func (o *occm) ensured(names ...string) {
	o.c.t.Helper()
	eventually(o.c.t, 60*time.Second, func() string {
		for _, name := range names {
			if events := o.c.eventsOf(name); !strings.Contains(events, "EnsuredLoadBalancer") {
				return fmt.Sprintf("Service %s: %s", name, events)
			}
		}
		reads := 0
		for _, r := range o.sim.Requests() {
			if r.Method == http.MethodGet && strings.Contains(r.Path, "/routers/") {
				reads++
			}
		}
		if reads < 3 {
			return "the routes have not been compared three times yet"
		}
		return ""
	})
}

// Swapping openstack-cloud-controller-manager for ours changes nothing in the cloud but our
// owner's marks, so that it can take back; from then on what it made is ours to maintain.
func TestTakeoverOfACluster(t *testing.T) {
	c, sim := newCluster(t), startSim(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-", Zones: []string{"az1"}, Flavor: "m1.small"})
	c.register(servers, func(i int) nodeState {
		return nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(i)}}
	})
	o := &occm{c: c, sim: sim, octavia: octavia(t, sim), neutron: network(t, sim), servers: servers, floating: true}
	for i, s := range servers {
		o.route(i, s)
	}
	addRoutes(t, sim, "10.244.200.0/24 via "+servers[0].Addresses[0].String()) // an operator's
	web := c.createService(loadBalancerService("web", corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}))
	shared := c.createService(loadBalancerService("shared", corev1.ServicePort{Port: 8080}))
	lb := o.serve(web, shared)
	o.floating = false
	hidden := loadBalancerService("hidden", corev1.ServicePort{Port: 443})
	hidden.Annotations = map[string]string{"service.beta.kubernetes.io/openstack-internal-load-balancer": "true"}
	internal := o.serve(c.createService(hidden))

	before := o.state()
	sim.ResetRequests()
	conf := sim.CloudConf() + "\n[LoadBalancer]\ncreate-monitor = true\n"
	r := c.startCCMWith(conf)
	o.ensured("web", "shared", "hidden")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	marks := map[string]int{"load-balancer PUT /lbaas/loadbalancers/" + lb.ID: 1, "load-balancer PUT /lbaas/loadbalancers/" + internal.ID: 1}
	routeMarks := len(servers)
	for _, m := range o.mutations() {
		if strings.HasPrefix(m, "network PUT /routers/"+sim.Defaults().RouterID+"/tags/isthmus-") {
			routeMarks--
			continue
		}
		if marks[m]--; marks[m] < 0 {
			t.Errorf("taking over made the call %s", m)
		}
	}
	if routeMarks != 0 {
		t.Errorf("%d routes of Nodes were not marked, or marked twice", routeMarks)
	}
	if diff := cmp.Diff(before, o.state()); diff != "" {
		t.Errorf("the cloud has changed:\n%s", diff)
	}

	if err := c.client.CoreV1().Events("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	sim.ResetRequests()
	c.startCCMWith(conf)
	o.ensured("web", "shared", "hidden")
	if got := o.mutations(); len(got) > 0 {
		t.Errorf("after a restart it made the calls %q", got)
	}
	o.wantMaintained(web.Name, shared.Name, hidden.Name)
}

// wantMaintained deletes a Node and the Services: all that OCCM made for them goes, and
// nothing else.
func (o *occm) wantMaintained(services ...string) {
	t := o.c.t
	t.Helper()
	gone := o.servers[2]
	o.sim.DeleteServer(gone.ID)
	o.c.setReady(gone.Name, corev1.ConditionFalse)
	eventually(t, 30*time.Second, wantRoutes(o.sim, routeTo(0, o.servers[0]), routeTo(1, o.servers[1]), "10.244.200.0/24 via "+o.servers[0].Addresses[0].String()))
	for _, name := range services {
		o.c.deleteService(name)
	}
	eventually(t, 30*time.Second, func() string {
		if s := o.sim.Snapshot(); len(o.sim.LoadBalancers()) > 0 || len(s.FloatingIPs) > 0 {
			return fmt.Sprintf("left are the load balancers %v and the floating IPs %v", o.sim.LoadBalancers(), s.FloatingIPs)
		}
		return ""
	})
}
