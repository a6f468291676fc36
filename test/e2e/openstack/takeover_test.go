//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/occm"
)

// oldManager makes what openstack-cloud-controller-manager makes for a Service, with monitors
// left out.
func (c *cluster) oldManager(s *corev1.Service, nodes []server) (lbID, address string) {
	c.t.Helper()
	defer progress("making what the old cloud controller manager makes")()
	ctx, member := c.t.Context(), c.cloud.member
	m := occm.Cloud{LoadBalancer: member.loadBalancer, Network: member.network, SubnetID: c.cloud.subnetID, FloatingNetworkID: c.cloud.externalID, Provider: "amphora"}
	var members []cloud.LoadBalancerMember
	for _, n := range nodes {
		members = append(members, cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: n.name}, Addresses: []netip.Addr{n.address}})
	}
	lbID, address, err := m.Make(ctx, occm.Spec(clusterName, s, members))
	if err := errors.Join(err, occm.Publish(ctx, c.client, s, lbID, address)); err != nil {
		c.t.Fatal(err)
	}
	return lbID, address
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
	lbID, address := c.oldManager(c.service("old", nil, tcp(80), udp(53)), nodes)
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
