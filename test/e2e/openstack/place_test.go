//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// place is the project as scenarios of test/differential name it: {subnet}, {network}, {router},
// {ext}; of server N {nodeN} (address), {nodeN.id}, {nodeN.port}.
func (c *realCloud) place(servers []server) *play.Place {
	p := &play.Place{
		Cloud:   &snapshot.Cloud{Network: c.member.network, LoadBalancer: c.member.loadBalancer},
		Symbols: symbol.New("", ""),
	}
	for symbol, value := range map[string]string{"subnet": c.subnetID, "network": c.networkID, "router": c.routerID, "ext": c.externalID} {
		p.Symbols.Set(symbol, value)
	}
	for i, s := range servers {
		name := fmt.Sprintf("node%d", i)
		p.Symbols.Set(name, s.address.String())
		p.Symbols.Set(name+".id", s.id)
		p.Symbols.Set(name+".port", s.portID)
	}
	return p
}

// userMade makes what users have in the cloud before their Services: {own-fip} is the address of
// a floating IP, {own-port} a port, {own-lb} a load balancer with a floating IP and a listener.
// It goes with the test.
func (c *realCloud) userMade(t *testing.T, symbols *symbol.Symbols) {
	t.Helper()
	ctx, net, octavia := t.Context(), c.member.network, c.member.loadBalancer
	fip := func(symbol, port string) {
		made, err := floatingips.Create(ctx, net, floatingips.CreateOpts{FloatingNetworkID: c.externalID, PortID: port, Description: "a user's"}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		c.cleanUp(t, "floating IP", func(ctx context.Context) error { return floatingips.Delete(ctx, net, made.ID).ExtractErr() })
		symbols.Set(symbol, made.FloatingIP)
	}
	fip("own-fip", "")
	port, err := ports.Create(ctx, net, ports.CreateOpts{NetworkID: c.networkID, Name: "own-port"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	c.cleanUp(t, "port", func(ctx context.Context) error { return ports.Delete(ctx, net, port.ID).ExtractErr() })
	symbols.Set("own-port", port.ID)
	lb, err := loadbalancers.Create(ctx, octavia, loadbalancers.CreateOpts{Name: "own-lb", VipSubnetID: c.subnetID, Tags: []string{"a user's"}}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	c.cleanUp(t, "load balancer", func(ctx context.Context) error { return c.deleteLB(ctx, lb.ID) })
	symbols.Set("own-lb", lb.ID)
	fip("own-lb-fip", lb.VipPortID)
	if err := c.active(ctx, lb.ID); err != nil {
		t.Fatal(err)
	}
}

// inventory is all objects that load balancers and routes consist of, by kind and ID, as the
// cloud shows them, but for what changes by itself.
type inventory map[string]map[string]any

func (c *realCloud) inventory(ctx context.Context) (inventory, error) {
	for {
		out, err := c.readInventory(ctx)
		if !gophercloud.ResponseCodeIs(err, 404) { // else a pool has gone meanwhile
			return out, err
		}
	}
}

func (c *realCloud) readInventory(ctx context.Context) (inventory, error) {
	out, project := inventory{}, "?project_id="+c.member.projectID
	read := func(client *gophercloud.ServiceClient, url, key string) error {
		var doc map[string]json.RawMessage
		if err := get(ctx, client, url, &doc); err != nil {
			return err
		}
		var list []map[string]any
		if err := json.Unmarshal(doc[key], &list); err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		for _, o := range list {
			for _, volatile := range []string{"updated_at", "revision_number", "operating_status", "provisioning_status", "status"} {
				delete(o, volatile)
			}
			if tags, ok := o["tags"].([]any); ok {
				o["tags"] = slices.DeleteFunc(tags, func(t any) bool { return isOwnerTag(fmt.Sprint(t)) })
			}
			out[fmt.Sprintf("%s/%v", strings.TrimSuffix(url, project), o["id"])] = o
		}
		return nil
	}
	for _, kind := range []string{"loadbalancers", "listeners", "pools", "healthmonitors"} {
		if err := read(c.member.loadBalancer, "lbaas/"+kind, kind); err != nil {
			return nil, err
		}
	}
	for _, id := range slices.Collect(maps.Keys(out)) {
		if pool, is := strings.CutPrefix(id, "lbaas/pools/"); is {
			if err := read(c.member.loadBalancer, "lbaas/pools/"+pool+"/members", "members"); err != nil {
				return nil, err
			}
		}
	}
	for url, key := range map[string]string{"floatingips": "floatingips", "ports": "ports", "security-groups": "security_groups", "routers": "routers"} {
		if err := read(c.member.network, url+project, key); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// What may change at a takeover: the owner's tag.
var ownerTag = regexp.MustCompile(`^PUT /v2(\.0)?/lbaas/loadbalancers/[0-9a-f-]{36}$`)

// isOwnerTag reports whether a tag is one of the marks by which we know our own.
func isOwnerTag(tag string) bool { return strings.HasPrefix(tag, "isthmus-") }

// settled waits until no load balancer is changing, and returns what the cloud then has. What is
// below an ACTIVE one may be PENDING_CREATE for ever: Octavia leaves it so when it makes all at once.
func (c *cluster) settled() inventory {
	c.t.Helper()
	var out inventory
	c.eventually("no load balancer is changing", func(ctx context.Context) (err error) {
		if out, err = c.cloud.inventory(ctx); err != nil {
			return err
		}
		busy, err := (&snapshot.Cloud{LoadBalancer: c.cloud.member.loadBalancer}).Busy(ctx)
		if err == nil && busy != "" {
			err = errors.New(busy)
		}
		return err
	})
	return out
}

// deleted waits until the Services are gone; the cloud then holds what it held before them.
func (c *cluster) deleted(before inventory) {
	c.t.Helper()
	c.eventually("the Services are deleted", func(ctx context.Context) error {
		left, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var names []string
		for _, service := range left.Items {
			if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
				names = append(names, service.Namespace)
			}
		}
		if len(names) > 0 {
			return fmt.Errorf("there are still %v", names)
		}
		return nil
	})
	after := c.settled()
	for id := range maps.Keys(after) {
		if _, was := before[id]; !was && !strings.HasPrefix(id, "ports/") {
			c.t.Errorf("%s is left: %v", id, after[id])
		}
	}
}
