//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
)

// What users of openstack-cloud-controller-manager rely on, as its own end-to-end tests list
// it. No traffic flows in this cloud: the cloud's objects are asserted.

// Basic: a Service gets an address, the load balancer leads to all nodes, and deletion
// removes everything. X-Forwarded-For: the listener becomes an HTTP one that sets the header.
// Port update: the listener moves, the address stays.
func TestPeersBasicForwardedForAndPortUpdate(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(2)
	c.startManager("")
	c.initialized(nodes)

	s := c.service("basic", nil, tcp(80))
	address := c.address("basic")
	lb := c.lb("basic")
	members := membersAt(nodes, s.Spec.Ports[0].NodePort, 0)
	c.served("basic", lb.ID, "TCP/80 → TCP "+members)

	c.update("basic", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
	c.served("port update", lb.ID, "TCP/8080 → TCP "+members)

	c.update("basic", func(s *corev1.Service) { annotate(s, annotationPrefix+"x-forwarded-for", "true") })
	c.served("X-Forwarded-For", lb.ID, "HTTP/8080 → HTTP "+members)
	for _, l := range c.state().listeners {
		if l.InsertHeaders["X-Forwarded-For"] != "true" {
			t.Errorf("listener %s inserts %v", l.Name, l.InsertHeaders)
		}
	}
	if got := c.address("basic"); got != address {
		t.Errorf("the address is %s, and was %s", got, address)
	}
	c.remove("basic")
	c.nothingLeft()
}

func annotate(s *corev1.Service, key, value string) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[key] = value
}

// Shared: a second Service names the first one's load balancer and gets listeners on it; each
// Service's deletion takes what is its own, the last one's takes the load balancer.
func TestPeersSharedLoadBalancer(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(2)
	c.startManager("")
	c.initialized(nodes)
	first := c.service("first", nil, tcp(80))
	address := c.address("first")
	lb := c.lb("first")
	second := c.service("second", annotated(map[string]string{annotationPrefix + "load-balancer-id": lb.ID}), tcp(8080))
	if got := c.address("second"); got != address {
		t.Errorf("the second Service has the address %s, the first %s", got, address)
	}
	of := func(s *corev1.Service) string {
		return fmt.Sprintf("TCP/%d → TCP %s", s.Spec.Ports[0].Port, membersAt(nodes, s.Spec.Ports[0].NodePort, 0))
	}
	c.served("both Services are served", lb.ID, of(first), of(second))
	c.remove("first")
	c.served("the second one is left", lb.ID, of(second))
	if got := c.address("second"); got != address {
		t.Errorf("the second Service has the address %s now, and had %s", got, address)
	}
	c.remove("second")
	c.nothingLeft()
}

// User-owned: a Service on a load balancer that somebody made for himself gets listeners on
// it; its deletion leaves that load balancer and what its owner has on it as they were.
func TestPeersUserOwnedLoadBalancer(t *testing.T) {
	c := newCluster(t)
	ctx, api := t.Context(), c.cloud.member.loadBalancer
	nodes := c.nodes(2)
	own, err := loadbalancers.Create(ctx, api, loadbalancers.CreateOpts{Name: "mine", VipSubnetID: c.cloud.subnetID, Tags: []string{"mine"}}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.cloud.cleanup(func(ctx context.Context) error { return c.cloud.deleteLB(ctx, own.ID) }); err != nil {
			t.Errorf("delete load balancer: %v", err)
		}
	})
	if err := c.cloud.active(ctx, own.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := listeners.Create(ctx, api, listeners.CreateOpts{Name: "mine", LoadbalancerID: own.ID, Protocol: "TCP", ProtocolPort: 22}).Extract(); err != nil {
		t.Fatal(err)
	}
	if err := c.cloud.active(ctx, own.ID); err != nil {
		t.Fatal(err)
	}
	c.startManager("")
	c.initialized(nodes)
	s := c.service("guest", annotated(map[string]string{annotationPrefix + "load-balancer-id": own.ID, annotationInternal: "true"}), tcp(80))
	if got := c.address("guest"); got != own.VipAddress {
		t.Errorf("the Service has the address %s, want the load balancer's %s", got, own.VipAddress)
	}
	c.served("the Service is served beside the owner's listener", own.ID, "TCP/22", "TCP/80 → TCP "+membersAt(nodes, s.Spec.Ports[0].NodePort, 0))
	c.remove("guest")
	c.served("the owner's listener is left", own.ID, "TCP/22")
	after, err := loadbalancers.Get(ctx, api, own.ID).Extract()
	if err != nil {
		t.Fatal(err)
	}
	if after.Name != "mine" || fmt.Sprint(after.Tags) != "[mine]" {
		data, _ := json.Marshal(after)
		t.Errorf("the load balancer has changed: %s", data)
	}
}
