//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// Nodes get what the cloud knows of their servers, a server's shutdown taints its Node, its
// start removes the taint, and its deletion removes the Node and no other.
func TestNodes(t *testing.T) {
	c := newCluster(t)
	shared := c.nodes(2)
	own := c.cloud.boot(t, "e2e-mortal")[0]
	c.register(own, "10.244.9.0/24")
	c.startManager("")
	c.initialized(append(shared, own))
	for _, s := range append(shared, own) {
		n, err := c.node(t.Context(), s.name)
		if err != nil {
			t.Fatal(err)
		}
		var addresses []string
		for _, a := range n.Status.Addresses {
			addresses = append(addresses, fmt.Sprintf("%s=%s", a.Type, a.Address))
		}
		for what, pair := range map[string][2]string{
			"provider ID":     {n.Spec.ProviderID, "openstack:///" + s.id},
			"zone":            {n.Labels[corev1.LabelTopologyZone], s.zone},
			"region":          {n.Labels[corev1.LabelTopologyRegion], c.cloud.region},
			"instance type":   {n.Labels[corev1.LabelInstanceTypeStable], flavorName},
			"addresses":       {strings.Join(addresses, " "), "InternalIP=" + s.address.String()},
			"beta zone label": {n.Labels["failure-domain.beta.kubernetes.io/zone"], s.zone},
		} {
			if pair[0] != pair[1] {
				t.Errorf("Node %s: %s is %q, want %q", s.name, what, pair[0], pair[1])
			}
		}
	}

	if err := servers.Stop(t.Context(), c.cloud.member.compute, own.id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	c.setReady(own.name, corev1.ConditionUnknown)
	tainted := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			n, err := c.node(ctx, own.name)
			if err == nil && hasTaint(n, cloudproviderapi.TaintNodeShutdown) != want {
				err = fmt.Errorf("Node %s has taints %v", own.name, n.Spec.Taints)
			}
			return err
		}
	}
	c.eventually("the Node of a server that was shut down has the taint", tainted(true))
	if err := servers.Start(t.Context(), c.cloud.member.compute, own.id).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	c.setReady(own.name, corev1.ConditionTrue)
	c.eventually("the taint is gone when the server runs again", tainted(false))

	if err := c.cloud.deleteServer(own.id); err != nil {
		t.Fatal(err)
	}
	c.setReady(own.name, corev1.ConditionUnknown)
	c.eventually("the Node of a deleted server is gone", func(ctx context.Context) error {
		_, err := c.node(ctx, own.name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("Node %s is still there", own.name)
		}
		return err
	})
	for _, s := range shared {
		if _, err := c.node(t.Context(), s.name); err != nil {
			t.Errorf("Node %s: %v", s.name, err)
		}
	}
}
