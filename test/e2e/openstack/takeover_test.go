//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
)

// TestTakeover: the Services that openstack-cloud-controller-manager was recorded to serve (see test/differential), with
// the Nodes that it has initialized, are taken over with no change in the cloud but our owner's tag on the load balancers;
// the Services' deletion then leaves nothing.
func TestTakeover(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	group, recorded, err := recording.Of("../../differential/openstack/testdata", "v-client", "v-proxy", "v-xff")
	must(err)
	player := play.New(group, c.cloud.place(c.servers(group.Servers())), c.client)
	t.Cleanup(func() {
		if err := player.Clean(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("clean the cluster up: %v", err)
		}
	})
	empty := c.settled()
	made := progress("making what the old cloud controller manager has made")
	services, err := player.Restore(ctx, recorded, 0)
	must(err)
	made()
	published := func() (out []any) {
		t.Helper()
		for _, s := range services {
			got, err := c.client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
			must(err)
			out = append(out, got.Annotations, got.Status.LoadBalancer)
		}
		return out
	}
	cloud, shown := c.settled(), published()
	conf, err := player.Place.Symbols.Expand(group.Conf)
	must(err)
	c.startDefault(confFor(c.throughProxy(c.cloud.cred), c.cloud.region, conf), "--cluster-name="+group.Cluster())
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	must((&differential.Observer{Client: c.client, Quiet: 2 * time.Second, Busy: player.Place.Cloud.Busy, Calls: func() (all, open int) {
		return len(mutations(c.proxy.since(0))), c.proxy.pending()
	}}).Settled(within, nil, services))

	changes := mutations(c.proxy.since(0))
	if slices.ContainsFunc(changes, func(c call) bool { return !ownerTag.MatchString(c.method + " " + c.path) }) || len(changes) != len(group.Scenarios) {
		t.Errorf("taking over changed the cloud by %d calls, want %d, the owner's tag on each load balancer:\n%s", len(changes), len(group.Scenarios), list(changes))
	}
	if diff := cmp.Diff(cloud, c.settled()); diff != "" {
		t.Errorf("the cloud has changed by more than the owner's tag (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(shown, published()); diff != "" {
		t.Errorf("what is published has changed (-before +after):\n%s", diff)
	}
	for _, s := range services {
		must(c.client.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}))
	}
	c.deleted(empty)
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
