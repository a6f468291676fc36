//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/ccm/options"
)

// Routes and address pairs to the Nodes' pods appear and disappear with the Nodes. What an
// operator put on the router and on the ports stays, also within the cluster's CIDR.
func TestRoutes(t *testing.T) {
	c := newCluster(t)
	ctx, net := t.Context(), c.cloud.member.network
	nodes := c.nodes(3)
	ours := func(servers ...server) []string {
		var out []string
		for _, s := range servers {
			n, err := c.node(ctx, s.name)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n.Spec.PodCIDR+" via "+s.address.String())
		}
		return out
	}
	all, pairOf := ours(nodes...), map[string]string{}
	for _, s := range nodes {
		route := ours(s)[0]
		pairOf[s.portID], _, _ = strings.Cut(route, " via ")
	}

	// The operator's: to somewhere else, and to a part of the pods' range over a host that is no Node.
	operator := []routers.Route{
		{DestinationCIDR: "192.0.2.0/24", NextHop: nodes[0].address.String()},
		{DestinationCIDR: "10.244.200.0/24", NextHop: "10.7.255.254"},
	}
	if _, err := extraroutes.Add(ctx, net, c.cloud.routerID, extraroutes.Opts{Routes: &operator}).Extract(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		none := []routers.Route{}
		if err := c.cloud.cleanup(func(ctx context.Context) error {
			return routers.Update(ctx, net, c.cloud.routerID, routers.UpdateOpts{Routes: &none}).Err
		}); err != nil {
			t.Errorf("remove the routes: %v", err)
		}
	})
	const operatorPair = "192.0.2.0/24"
	setPairs := func(pairs ...ports.AddressPair) error {
		return c.cloud.cleanup(func(ctx context.Context) error {
			return ports.Update(ctx, net, nodes[0].portID, ports.UpdateOpts{AllowedAddressPairs: &pairs}).Err
		})
	}
	if err := setPairs(ports.AddressPair{IPAddress: operatorPair}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := setPairs(); err != nil {
			t.Errorf("remove the address pairs: %v", err)
		}
	})
	var theirs []string
	for _, r := range operator {
		theirs = append(theirs, r.DestinationCIDR+" via "+r.NextHop)
	}

	want := func(what string, routes []string, with ...server) {
		t.Helper()
		c.eventually(what, func(ctx context.Context) error {
			router, err := routers.Get(ctx, net, c.cloud.routerID).Extract()
			if err != nil {
				return err
			}
			var got []string
			for _, r := range router.Routes {
				got = append(got, r.DestinationCIDR+" via "+r.NextHop)
			}
			slices.Sort(got)
			wanted := slices.Sorted(slices.Values(append(slices.Clone(theirs), routes...)))
			if !slices.Equal(got, wanted) {
				return fmt.Errorf("the router has %v, want %v", got, wanted)
			}
			if len(router.Tags) != len(routes) { // one says of each route that it is ours
				return fmt.Errorf("the router has the tags %v for %d routes", router.Tags, len(routes))
			}
			return c.pairs(ctx, nodes, with, pairOf, operatorPair)
		})
	}
	c.startManager("[Route]\nrouter-id = "+c.cloud.routerID, "--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true", "--route-reconciliation-period=1s")
	c.initialized(nodes)
	want("routes and address pairs of all Nodes", all, nodes...)

	if err := c.client.CoreV1().Nodes().Delete(ctx, nodes[2].name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("those of a Node that is gone are gone", all[:2], nodes[:2]...)

	mark := c.proxy.mark()
	var idle []call
	c.eventually("the routes are reconciled twice without a change", func(context.Context) error {
		if idle = of("network", c.proxy.since(mark)); len(idle) < 3 { // the first may end one that had begun before
			return fmt.Errorf("the cloud was asked %d times", len(idle))
		}
		return nil
	})
	for _, call := range idle {
		if call.method != http.MethodGet || !strings.HasPrefix(call.path, "/v2.0/routers/"+c.cloud.routerID) {
			t.Errorf("reconciling without a change asked more than one question, for the router:\n%s", list(idle))
			break
		}
	}

	for _, s := range nodes[:2] {
		if err := c.client.CoreV1().Nodes().Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.releaseNodes() // that all Nodes are gone at once is not believed without it
	want("only the operator's are left", nil)
}

// releaseNodes is an operator's word, until the test's end, that Nodes which are gone are gone.
func (c *cluster) releaseNodes() {
	c.t.Helper()
	annotate := func(ctx context.Context, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, options.DeleteNodesUntil, value)
		_, err := c.client.CoreV1().Namespaces().Patch(ctx, metav1.NamespaceSystem, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if err := annotate(c.t.Context(), strconv.Quote(time.Now().Add(time.Hour).UTC().Format(time.RFC3339))); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := c.cloud.cleanup(func(ctx context.Context) error { return annotate(ctx, "null") }); err != nil {
			c.t.Errorf("take the operator's word back: %v", err)
		}
	})
}

// pairs says what is wrong with the address pairs of the servers' ports: those in with have
// their Node's, the first has the operator's besides.
func (c *cluster) pairs(ctx context.Context, servers, with []server, pairOf map[string]string, operator string) error {
	for i, s := range servers {
		var want []string
		if i == 0 {
			want = append(want, operator)
		}
		if slices.Contains(with, s) {
			want = append(want, pairOf[s.portID])
		}
		port, err := ports.Get(ctx, c.cloud.member.network, s.portID).Extract()
		if err != nil {
			return err
		}
		var got []string
		for _, p := range port.AllowedAddressPairs {
			got = append(got, p.IPAddress)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			return fmt.Errorf("the port of %s has the address pairs %v, want %v", s.name, got, want)
		}
	}
	return nil
}
