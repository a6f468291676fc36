package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	corev1 "k8s.io/api/core/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// What others change of a load balancer is put right after the period, and an event says so.
func TestComplaint1597DriftIsRepaired(t *testing.T) {
	c, sim, _ := serviceFixture(t, "--load-balancer-sync-period=2s")
	c.createService(loadBalancerService("web", httpPort(80)))
	c.address("web")
	members := func() int { return len(sim.Snapshot().Members) }
	if n := members(); n != 3 {
		t.Fatalf("the load balancer has %d members, want 3", n)
	}
	snapshot := sim.Snapshot()
	if err := pools.DeleteMember(t.Context(), octavia(t, sim), snapshot.Pools[0].ID, snapshot.Members[0].ID).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string {
		if n := members(); n != 3 {
			return fmt.Sprintf("the load balancer has %d members, want 3", n)
		}
		if events := c.eventsOf("web"); !strings.Contains(events, "Warning RepairedLoadBalancer") {
			return "no event tells of the repair: " + events
		}
		return ""
	})
	eventually.Met(t, func() string { // every verification afterwards only reads
		sim.ResetRequests()
		<-time.After(3 * time.Second)
		if n := sim.Mutations(); n > 0 {
			return fmt.Sprintf("%d mutating requests", n)
		}
		if sim.Count("load-balancer", "") == 0 {
			return "nothing is verified"
		}
		return ""
	})
}

// Nodes that join together cost each load balancer one update of each pool's members. Together is what comes before a second without a
// change: on a busy machine there may be as many updates as that had seconds.
func TestComplaint2858NodesThatJoinTogether(t *testing.T) {
	const services, ports, joining = 3, 2, 20
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3 + joining, NamePrefix: "node-"})
	ready := always(nodeState{ready: true, initialized: true})
	c.register(servers[:3], ready)
	c.startCCM(sim, "--leader-elect=false", "--controllers=service", "--concurrent-service-syncs=5")
	for i := range services {
		c.createService(loadBalancerService(fmt.Sprint("web", i), httpPort(80), httpPort(81)))
	}
	for i := range services {
		c.address(fmt.Sprint("web", i))
	}
	eventually.Met(t, func() string { // what was begun is over
		sim.ResetRequests()
		<-time.After(1500 * time.Millisecond)
		if n := sim.Count("", ""); n > 0 {
			return fmt.Sprintf("%d requests without a change", n)
		}
		return ""
	})
	began := time.Now()
	c.register(servers[3:], ready)
	want := services * ports * (3 + joining)
	eventually.Met(t, func() string {
		if n := len(sim.Snapshot().Members); n != want {
			return fmt.Sprintf("%d members, want %d", n, want)
		}
		return ""
	})
	most := services * ports * (1 + int(time.Since(began)/time.Second))
	<-time.After(1500 * time.Millisecond)
	updates := 0
	for _, r := range sim.Requests() {
		if r.Service == "load-balancer" && r.Method == http.MethodPut && strings.HasSuffix(r.Path, "/members") {
			updates++
		}
	}
	if updates < services*ports || updates > most || sim.Mutations() != updates {
		t.Errorf("%d updates of members and %d mutating requests for %d nodes, want %d to %d of both", updates, sim.Mutations(), joining, services*ports, most)
	}
}

// ensured is how many passes over a Service have ended well.
func (c *cluster) ensured(name string) (n int) {
	c.t.Helper()
	list, err := c.client.CoreV1().Events("default").List(c.t.Context(), listOf(name))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == "EnsuredLoadBalancer" {
			n += int(max(e.Count, 1))
		}
	}
	return n
}

// After a restart nothing is written, neither to the cloud nor to the cluster.
func TestServicesAfterARestart(t *testing.T) {
	const services = 8
	c, sim := newCluster(t), ossim.ForTest(t)
	c.register(sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-"}), always(nodeState{ready: true, initialized: true}))
	args := []string{"--leader-elect=false", "--controllers=service", "--concurrent-service-syncs=3"}
	first := c.startCCM(sim, args...)
	versions := map[string]string{}
	for i := range services {
		c.createService(loadBalancerService(fmt.Sprint("web", i), httpPort(80)))
	}
	for i := range services {
		c.address(fmt.Sprint("web", i))
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	ensured := func() (n int) {
		for i := range services {
			n += c.ensured(fmt.Sprint("web", i))
		}
		return n
	}
	for i := range services {
		s, _ := c.service(fmt.Sprint("web", i))
		versions[s.Name] = s.ResourceVersion
	}
	before, cloudBefore := ensured(), leftovers(sim)
	<-time.After(3 * time.Second) // Octavia's timestamps are of whole seconds: what is as new as now may yet change
	sim.ResetRequests()
	c.startCCM(sim, args...)
	eventually.Met(t, func() string {
		if n := ensured() - before; n != services {
			return fmt.Sprintf("%d of %d load balancers are ensured", n, services)
		}
		return ""
	})
	<-time.After(time.Second)
	if n := sim.Mutations(); n > 0 {
		t.Errorf("%d mutating requests after a restart", n)
	}
	if n := sim.Count("load-balancer", ""); n > services+4 { // all are read at once, each is looked at once
		t.Errorf("%d requests to Octavia after a restart for %d load balancers: %v", n, services, sim.Requests())
	}
	for name, version := range versions {
		if s, _ := c.service(name); s.ResourceVersion != version {
			t.Errorf("Service %s was written", name)
		}
	}
	if diff := cmp.Diff(cloudBefore, leftovers(sim)); diff != "" {
		t.Errorf("the cloud has changed:\n%s", diff)
	}
	if n := ensured() - before; n != services {
		t.Errorf("%d load balancers were ensured, want each of %d once", n, services)
	}
}

// Beside a controller that serves Services without a class, ours serves only its classes.
func TestComplaintLoadBalancerClassSideBySide(t *testing.T) {
	c, sim, _ := serviceFixture(t, "--load-balancer-default-class=false")
	before := leftovers(sim)
	c.createService(loadBalancerService("theirs", httpPort(80)))
	misspelled := loadBalancerService("misspelled", httpPort(80))
	misspelled.Spec.LoadBalancerClass = new("isthmus-cloud.github.io/openstack-gold")
	c.createService(misspelled)
	ours := loadBalancerService("ours", httpPort(80))
	ours.Spec.LoadBalancerClass = new("isthmus-cloud.github.io/openstack")
	c.createService(ours)
	c.address("ours")
	for _, name := range []string{"theirs", "misspelled"} {
		if s, _ := c.service(name); len(s.Finalizers) > 0 || len(s.Status.LoadBalancer.Ingress) > 0 {
			t.Errorf("Service %s was touched: %+v", name, s)
		}
	}
	if n := len(sim.Snapshot().LoadBalancers); n != 1 {
		t.Errorf("%d load balancers, want one", n)
	}
	eventually.Met(t, func() string {
		if events := c.eventsOf("misspelled"); !strings.Contains(events, "isthmus-cloud.github.io/openstack-gold") {
			return "no event names the class that nobody serves: " + events
		}
		return ""
	})
	if s, _ := c.service("ours"); !slices.Equal(s.Finalizers, []string{"isthmus-cloud.github.io/openstack"}) {
		t.Errorf("finalizers are %v: others take the common one off, whatever the class", s.Finalizers)
	}
	// The API server wipes the class with the type; the finalizer tells that it was ours.
	c.patchService("ours", `{"spec":{"type":"ClusterIP","loadBalancerClass":null}}`)
	eventually.Met(t, func() string {
		s, _ := c.service("ours")
		if len(s.Finalizers) > 0 || len(s.Status.LoadBalancer.Ingress) > 0 || s.Spec.Type != corev1.ServiceTypeClusterIP {
			return fmt.Sprintf("finalizers %v, status %v; events: %s", s.Finalizers, s.Status.LoadBalancer, c.eventsOf("ours"))
		}
		return cmp.Diff(before, leftovers(sim))
	})
}

// A quota that is met is told at once, with what to do; when there is room again, whoever changes the
// Service need not wait.
func TestQuotaIsToldAtOnce(t *testing.T) {
	c, sim, _ := serviceFixture(t)
	met := `{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer", "debuginfo": null}`
	room := sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Path: "/lbaas/loadbalancers", Status: http.StatusForbidden, Body: met})
	c.createService(loadBalancerService("web", httpPort(80)))
	eventually.Met(t, func() string {
		const want = "Quota has been met for resources: Load Balancer"
		events := c.eventsOf("web")
		for _, part := range []string{"Warning SyncLoadBalancerFailed", want, "; raise the project's quota", "; tried again every few minutes"} {
			if !strings.Contains(events, part) {
				return fmt.Sprintf("no event says %q: %s", part, events)
			}
		}
		return ""
	})
	room()
	c.patchService("web", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	c.address("web")
}
