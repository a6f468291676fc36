package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/test/occm"
)

// takeover is a cluster, and its cloud, that openstack-cloud-controller-manager has served.
type takeover struct {
	c       *cluster
	sim     *ossim.Sim
	cloud   occm.Cloud
	servers []ossim.Server
}

func newTakeover(c *cluster, sim *ossim.Sim, servers []ossim.Server) *takeover {
	c.t.Helper()
	d := sim.Defaults()
	o := &takeover{c: c, sim: sim, servers: servers, cloud: occm.Cloud{LoadBalancer: octavia(c.t, sim), Network: network(c.t, sim),
		SubnetID: d.SubnetID, FloatingNetworkID: d.ExternalNetworkID, Provider: "amphora", Monitors: true}}
	for i, s := range servers {
		if err := o.cloud.Route(c.t.Context(), d.RouterID, s.ID, podCIDR(i), s.Addresses[0].String()); err != nil {
			c.t.Fatal(err)
		}
	}
	return o
}

// serve makes the load balancer of Services, the first of which owns it, and returns its ID.
func (o *takeover) serve(services ...*corev1.Service) string {
	t := o.c.t
	t.Helper()
	var members []cloud.LoadBalancerMember
	for _, s := range o.servers {
		members = append(members, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: s.Name}, Addresses: s.Addresses})
	}
	var id, address string
	for i, s := range services {
		spec := occm.Spec("kubernetes", s, members)
		var err error
		if i == 0 {
			id, address, err = o.cloud.Make(t.Context(), spec)
		} else {
			err = o.cloud.Share(t.Context(), spec, id)
		}
		if err := errors.Join(err, occm.Publish(t.Context(), o.c.client, s, id, address)); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// state is everything in the cloud as the API shows it, without what our marks change (tags,
// the time and the number of the last change) and what health checks find.
func (o *takeover) state() string {
	t := o.c.t
	t.Helper()
	var out []string
	for _, list := range []struct {
		client *gophercloud.ServiceClient
		path   []string
	}{
		{o.cloud.LoadBalancer, []string{"lbaas", "loadbalancers"}}, {o.cloud.LoadBalancer, []string{"lbaas", "listeners"}}, {o.cloud.LoadBalancer, []string{"lbaas", "pools"}},
		{o.cloud.LoadBalancer, []string{"lbaas", "healthmonitors"}}, {o.cloud.Network, []string{"floatingips"}}, {o.cloud.Network, []string{"ports"}},
		{o.cloud.Network, []string{"routers"}}, {o.cloud.Network, []string{"security-groups"}},
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

func (o *takeover) mutations() []string {
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
func (o *takeover) ensured(names ...string) {
	o.c.t.Helper()
	eventually.Met(o.c.t, func() string {
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
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-", Zones: []string{"az1"}, Flavor: "m1.small"})
	c.register(servers, func(i int) nodeState {
		return nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(i)}}
	})
	o := newTakeover(c, sim, servers)
	addRoutes(t, sim, "10.244.200.0/24 via "+servers[0].Addresses[0].String()) // an operator's
	web := c.createService(loadBalancerService("web", corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}))
	shared := c.createService(loadBalancerService("shared", corev1.ServicePort{Port: 8080}))
	lb := o.serve(web, shared)
	hidden := loadBalancerService("hidden", corev1.ServicePort{Port: 443})
	hidden.Annotations = map[string]string{"service.beta.kubernetes.io/openstack-internal-load-balancer": "true"}
	internal := o.serve(c.createService(hidden))

	before := o.state()
	sim.ResetRequests()
	conf := sim.CloudConf() + "\n[LoadBalancer]\ncreate-monitor = true\n"
	r := c.startCCMWith(conf)
	o.ensured("web", "shared", "hidden")
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	marks := map[string]int{"load-balancer PUT /lbaas/loadbalancers/" + lb: 1, "load-balancer PUT /lbaas/loadbalancers/" + internal: 1}
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
func (o *takeover) wantMaintained(services ...string) {
	t := o.c.t
	t.Helper()
	gone := o.servers[2]
	o.sim.DeleteServer(gone.ID)
	o.c.setReady(gone.Name, corev1.ConditionFalse)
	eventually.Met(t, wantRoutes(o.sim, routeTo(0, o.servers[0]), routeTo(1, o.servers[1]), "10.244.200.0/24 via "+o.servers[0].Addresses[0].String()))
	for _, name := range services {
		o.c.deleteService(name)
	}
	eventually.Met(t, func() string {
		if s := o.sim.Snapshot(); len(o.sim.LoadBalancers()) > 0 || len(s.FloatingIPs) > 0 {
			return fmt.Sprintf("left are the load balancers %v and the floating IPs %v", o.sim.LoadBalancers(), s.FloatingIPs)
		}
		return ""
	})
}
