//go:build e2e

package e2e

import (
	"context"
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
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// occm makes, by the cloud's own API, what openstack-cloud-controller-manager makes for a
// Service, with its names, tags, descriptions and values.
func (c *cluster) occm(s *corev1.Service, nodes []server) (lbID, address string) {
	c.t.Helper()
	defer progress("making what the old cloud controller manager makes")()
	ctx, cloud := c.t.Context(), c.cloud
	name := lbName(s.Name)
	external := fmt.Sprintf("Kubernetes external service %s/%s from cluster %s", s.Namespace, s.Name, clusterName)
	lb, err := loadbalancers.Create(ctx, cloud.member.loadBalancer, loadbalancers.CreateOpts{
		Name: name, Description: external, VipSubnetID: cloud.subnetID, Provider: "amphora", Tags: []string{name},
	}).Extract()
	if err != nil {
		c.t.Fatal(err)
	}
	must := func(err error) {
		c.t.Helper()
		if err == nil {
			err = cloud.active(ctx, lb.ID)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	must(nil)
	unlimited, client, connect, inspect := -1, 50000, 5000, 0
	for i, p := range s.Spec.Ports {
		l, err := listeners.Create(ctx, cloud.member.loadBalancer, listeners.CreateOpts{
			Name: fmt.Sprintf("listener_%d_%s", i, name), LoadbalancerID: lb.ID, Protocol: listeners.Protocol(p.Protocol), ProtocolPort: int(p.Port),
			ConnLimit: &unlimited, TimeoutClientData: &client, TimeoutMemberData: &client, TimeoutMemberConnect: &connect, TimeoutTCPInspect: &inspect,
			Tags: []string{name},
		}).Extract()
		must(err)
		pool, err := pools.Create(ctx, cloud.member.loadBalancer, pools.CreateOpts{
			Name: fmt.Sprintf("pool_%d_%s", i, name), ListenerID: l.ID, Protocol: pools.Protocol(p.Protocol), LBMethod: pools.LBMethodRoundRobin,
		}).Extract()
		must(err)
		var members []pools.BatchUpdateMemberOpts
		for _, n := range nodes {
			members = append(members, pools.BatchUpdateMemberOpts{Address: n.address.String(), ProtocolPort: int(p.NodePort), Name: &n.name, SubnetID: &cloud.subnetID})
		}
		must(pools.BatchUpdateMembers(ctx, cloud.member.loadBalancer, pool.ID, members).ExtractErr())
	}
	fip, err := floatingips.Create(ctx, cloud.member.network, floatingips.CreateOpts{
		FloatingNetworkID: cloud.externalID, PortID: lb.VipPortID, Description: "Floating IP for " + external,
	}).Extract()
	must(err)
	return lb.ID, fip.FloatingIP
}

// TestTakeover: Nodes and a Service that openstack-cloud-controller-manager has served are
// taken over with no change in the cloud but our owner's tag on the load balancer, and go on
// from there; the Service's deletion then leaves nothing.
func TestTakeover(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	nodes := c.nodes(2)
	for _, n := range nodes { // as the old one left them
		patch := fmt.Sprintf(`{"spec":{"providerID":"openstack:///%s","taints":null}}`, n.id)
		if _, err := c.client.CoreV1().Nodes().Patch(ctx, n.name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		patch = fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, n.address)
		if _, err := c.client.CoreV1().Nodes().Patch(ctx, n.name, "application/strategic-merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	s := c.service("old", func(s *corev1.Service) { s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"} }, tcp(80), udp(53))
	lbID, address := c.occm(s, nodes)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"%[1]sload-balancer-id":%[2]q,"%[1]sload-balancer-address":%[3]q}},"status":{"loadBalancer":{"ingress":[{"ip":%[3]q,"ipMode":"VIP"}]}}}`, annotationPrefix, lbID, address)
	if _, err := c.client.CoreV1().Services("default").Patch(ctx, s.Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	before := c.state()

	c.startManager("")
	c.eventually("the Service is taken over", func(ctx context.Context) error {
		lb, err := loadbalancers.Get(ctx, c.cloud.member.loadBalancer, lbID).Extract()
		if err == nil && !slices.ContainsFunc(lb.Tags, func(tag string) bool { return strings.HasPrefix(tag, "isthmus-cluster=") }) {
			err = fmt.Errorf("the load balancer has the tags %v", lb.Tags)
		}
		return err
	})
	c.quiet()
	changes := mutations(c.proxy.since(0))
	if len(changes) != 1 || changes[0].method != http.MethodPut || !strings.HasSuffix(changes[0].path, "/lbaas/loadbalancers/"+lbID) {
		t.Errorf("taking over changed the cloud by %d calls, want one, the owner's tag on the load balancer:\n%s", len(changes), list(changes))
	}
	after := c.state()
	for i := range after.lbs {
		after.lbs[i].Tags = slices.DeleteFunc(after.lbs[i].Tags, func(tag string) bool { return strings.HasPrefix(tag, "isthmus-cluster=") })
		after.lbs[i].UpdatedAt, before.lbs[i].UpdatedAt = time.Time{}, time.Time{}
	}
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(octavia{})); diff != "" {
		t.Errorf("the cloud has changed by more than the owner's tag (-before +after):\n%s", diff)
	}
	if got := c.address("old"); got != address {
		t.Errorf("the address is %s, and was %s", got, address)
	}
	c.remove("old")
	c.nothingLeft()
}

// quiet waits until the controllers have asked the cloud nothing for two seconds.
func (c *cluster) quiet() {
	c.t.Helper()
	mark, since := c.proxy.mark(), time.Now()
	c.eventually("the controllers are idle", func(context.Context) error {
		if now := c.proxy.mark(); now != mark {
			mark, since = now, time.Now()
		}
		if idle := time.Since(since); idle < 2*time.Second {
			return fmt.Errorf("idle for %s", idle)
		}
		return nil
	})
}

// TestLoadBalancerGone: the Service's deletion cleans up also when somebody has deleted its
// load balancer before.
func TestLoadBalancerGone(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(1)
	c.startManager("")
	c.initialized(nodes)
	c.service("robbed", nil, tcp(80))
	c.address("robbed")
	if err := c.cloud.deleteLB(t.Context(), c.lb("robbed").ID); err != nil && !gophercloud.ResponseCodeIs(err, 404) {
		t.Fatal(err)
	}
	c.remove("robbed")
	c.nothingLeft()
}
