//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"

	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Service's whole life on provider amphora: what is asked for is what Octavia and Neutron
// have, after its creation and after every change, and nothing is left in the end.
func TestServiceOnAmphora(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(3)
	m := c.startManager("[LoadBalancer]\nlb-provider = amphora")
	c.initialized(nodes)

	mark := m.begin(c.proxy)
	s := c.service("life", func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24", "198.51.100.0/24"}
	}, tcp(80), udp(53))
	address := c.address("life")
	// The reads: the load balancer by name and by tag, the first member's port and its subnet (where the
	// VIP goes), the external network and its subnets; and, because this Octavia leaves what it makes at
	// once PENDING_CREATE, its listeners and pools, and members and monitor of each pool, which is then
	// written once more. An attempt that follows finds the load balancer by name, and may read the
	// listeners, pools, members and monitors again.
	m.budget("creation with two ports", c.proxy.since(mark), 6+2+2*2, 1+2+2*2, "POST /v2.0/lbaas/loadbalancers", "POST /v2.0/floatingips", "PUT /v2.0/lbaas/pools/", "PUT /v2.0/lbaas/pools/")

	lb, o := c.lb("life"), c.state()
	if lb.Provider != "amphora" || lb.Description != "Kubernetes external service default/life from cluster e2e" || !slices.Contains(lb.Tags, lb.Name) {
		t.Errorf("load balancer: %+v", lb)
	}
	if len(o.fips) != 1 || o.fips[0].FloatingIP != address || o.fips[0].PortID != lb.VipPortID || o.fips[0].FloatingNetworkID != c.cloud.externalID ||
		o.fips[0].Description != "Floating IP for Kubernetes external service default/life from cluster e2e" {
		t.Errorf("the Service has address %s, the floating IPs are %+v, the VIP's port is %s", address, o.fips, lb.VipPortID)
	}
	check := s.Spec.HealthCheckNodePort
	line := func(protocol string, port int32, cidrs string, i int, servers []server, sticky string) string {
		return fmt.Sprintf("%s/%d from %s → %s%s checked by HTTP/healthz %s", protocol, port, cidrs, protocol, sticky, membersAt(servers, s.Spec.Ports[i].NodePort, check))
	}
	const both = "192.0.2.0/24,198.51.100.0/24"
	c.served("the Service is served", lb.ID, line("TCP", 80, both, 0, nodes, ""), line("UDP", 53, both, 1, nodes, ""))

	c.patch("life", `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24"]}}`)
	c.served("source ranges are changed", lb.ID, line("TCP", 80, "192.0.2.0/24", 0, nodes, ""), line("UDP", 53, "192.0.2.0/24", 1, nodes, ""))

	c.patch("life", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	c.served("session affinity is changed", lb.ID, line("TCP", 80, "192.0.2.0/24", 0, nodes, " sticky SOURCE_IP"), line("UDP", 53, "192.0.2.0/24", 1, nodes, " sticky SOURCE_IP"))

	s = c.update("life", func(s *corev1.Service) {
		s.Spec.Ports[0].Port = 8080
		s.Spec.Ports = append(s.Spec.Ports, tcp(443))
	})
	const sticky = " sticky SOURCE_IP"
	ports := func(servers []server) []string {
		return []string{line("TCP", 8080, "192.0.2.0/24", 0, servers, sticky), line("UDP", 53, "192.0.2.0/24", 1, servers, sticky), line("TCP", 443, "192.0.2.0/24", 2, servers, sticky)}
	}
	c.served("ports are changed and added", lb.ID, ports(nodes)...)

	mark = m.begin(c.proxy)
	if err := c.client.CoreV1().Nodes().Delete(t.Context(), nodes[2].name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.served("a Node that is gone is no member", lb.ID, ports(nodes[:2])...)
	// The load balancer was changed before: what it has is read again, once for each pool.
	m.budget("a change of the Nodes with three ports", c.proxy.since(mark), 1+3, 1+3, "PUT /v2.0/lbaas/pools/", "PUT /v2.0/lbaas/pools/", "PUT /v2.0/lbaas/pools/")
	if got := c.address("life"); got != address {
		t.Errorf("the address is %s after all changes, and was %s", got, address)
	}

	mark = m.begin(c.proxy)
	c.remove("life")
	// Among the reads: of the listeners, where the load balancer has changed a moment ago.
	m.budget("deletion", c.proxy.since(mark), 3, 3, "DELETE /v2.0/floatingips/", "DELETE /v2.0/lbaas/loadbalancers/")
	c.nothingLeft()
}

// An internal Service has no floating IP, and one that becomes internal loses it.
func TestInternalService(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(1)
	c.startManager("")
	c.initialized(nodes)
	c.service("inside", nil, tcp(80))
	outside := c.address("inside")
	lb := c.lb("inside")
	c.patch("inside", `{"metadata":{"annotations":{"`+annotationInternal+`":"true"}}}`)
	c.eventually("the Service shows the VIP", func(context.Context) error {
		if got := c.address("inside"); got != lb.VipAddress {
			return fmt.Errorf("it shows %s, the VIP is %s", got, lb.VipAddress)
		}
		return nil
	})
	if o := c.state(); len(o.fips) != 0 {
		t.Errorf("the floating IP %s is left: %+v", outside, o.fips)
	}
	c.remove("inside")
	c.nothingLeft()
}
