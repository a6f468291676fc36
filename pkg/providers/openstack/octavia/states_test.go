package octavia

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// showAs makes Octavia say that a load balancer is in a state: to those who read it by its
// ID or, when list is set, by its name.
func (x *lbTest) showAs(lb plan.LoadBalancer, status string, list bool, times int) (remove func()) {
	x.t.Helper()
	lb.Status = status
	var doc any = map[string]any{"loadbalancer": lb}
	path := "/lbaas/loadbalancers/" + lb.ID
	if list {
		doc, path = map[string]any{"loadbalancers": []plan.LoadBalancer{lb}}, "/lbaas/loadbalancers"
	}
	body, err := json.Marshal(doc)
	if err != nil {
		x.t.Fatal(err)
	}
	return x.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodGet, Path: path, Body: string(body), Times: times})
}

func TestBusyLoadBalancer(t *testing.T) {
	x := newLBTest(t, 2, "")
	x.ensure(x.spec)
	x.lbs.waits.brief, x.lbs.waits.retry = 30*time.Millisecond, 7*time.Second
	busy := *x.lb(x.spec.Settings[plan.AnnLoadBalancerID])
	removeList := x.showAs(busy, "PENDING_UPDATE", true, 0)
	remove := x.showAs(busy, "PENDING_UPDATE", false, 0)
	x.spec.Members = x.spec.Members[:1]
	ops := map[string]func(context.Context) error{
		"Ensure":        func(ctx context.Context) error { _, err := x.lbs.Ensure(ctx, x.spec); return err },
		"UpdateMembers": func(ctx context.Context) error { return x.lbs.UpdateMembers(ctx, x.spec) },
		"Delete": func(ctx context.Context) error {
			spec := *x.spec
			spec.Settings = cloud.Settings{plan.AnnLoadBalancerID: spec.Settings[plan.AnnLoadBalancerID], plan.AnnKeepFloatingIP: "true"}
			return x.lbs.Delete(ctx, &spec)
		},
	}
	for name, op := range ops {
		x.sim.ResetRequests()
		if err := op(testContext(t)); cloud.KindOf(err) != cloud.KindRetryAfter || cloud.RetryAfter(err) != 7*time.Second {
			t.Errorf("%s: %v, want KindRetryAfter with 7s", name, err)
		}
		if n := x.sim.Mutations(); n != 0 {
			t.Errorf("%s makes %d changing calls on a busy load balancer", name, n)
		}
	}
	x.lbs.waits.total, x.lbs.waits.brief = time.Hour, time.Hour
	for name, op := range ops {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		err := op(ctx) // or it waits for an hour
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s after its context ended: %v", name, err)
		}
	}
	remove()
	removeList()
	x.ensure(x.spec)
	x.wantConverged(x.spec, "amphora")
}

// TestBusyAtTheChange: the load balancer becomes busy between our look and our change.
func TestBusyAtTheChange(t *testing.T) {
	x := newLBTest(t, 2, "")
	x.ensure(x.spec)
	lb := x.lb(x.spec.Settings[plan.AnnLoadBalancerID])
	x.spec.Members = x.spec.Members[:1]
	var undo []func()
	remove := x.sim.OnMutation(func(m ossim.Mutation) {
		if !m.After && strings.HasSuffix(m.Path, "/members") {
			undo = append(undo, x.showAs(*lb, "PENDING_UPDATE", false, 0))
			m.Fail(http.StatusConflict, "Pool is immutable and cannot be updated.")
		}
	})
	_, err := x.lbs.Ensure(testContext(t), x.spec)
	if cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("Ensure: %v, want KindRetryAfter", err)
	}
	remove()
	for _, u := range undo {
		u()
	}
	x.ensure(x.spec)
	x.wantConverged(x.spec, "amphora")
}

func TestFailedCreationIsMadeAnew(t *testing.T) {
	x := newLBTest(t, 1, "")
	x.ensure(x.service("other", nil))
	first, err := x.lbs.Ensure(testContext(t), x.spec) // its answer is lost: nothing is published
	if err != nil {
		t.Fatal(err)
	}
	id := first.Annotations[plan.AnnLoadBalancerID]
	x.showAs(*x.lb(id), plan.StateError, true, 1)
	second := x.ensure(x.spec)
	if second.Annotations[plan.AnnLoadBalancerID] == id {
		t.Error("the failed load balancer is still in use")
	}
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != 2 || len(s.FloatingIPs) != 2 {
		t.Errorf("objects %q, want 2 load balancers and floating IPs", x.objects())
	}

	// One that has served is never deleted, nor one that does not carry our cluster's tag.
	lb := x.lb(second.Annotations[plan.AnnLoadBalancerID])
	remove := x.showAs(*lb, plan.StateError, false, 0)
	x.sim.ResetRequests()
	if _, err := x.lbs.Ensure(testContext(t), x.spec); err == nil || !strings.Contains(err.Error(), "is in state ERROR") {
		t.Errorf("Ensure: %v, want an error that names the state", err)
	}
	remove()
	lb.Tags = []string{lb.Name}
	defer x.showAs(*lb, plan.StateError, false, 0)()
	if _, err := x.lbs.Ensure(testContext(t), x.service("web", cloud.Settings{plan.AnnLoadBalancerID: lb.ID})); err == nil || !strings.Contains(err.Error(), "is in state ERROR") {
		t.Errorf("Ensure: %v, want an error that names the state", err)
	}
	if n := x.sim.Mutations(); n != 0 {
		t.Errorf("%d changing calls, want none", n)
	}
}

// TestErrorsKeepTheirKind: what the cloud answers reaches the caller with its kind, and
// nothing is taken for gone that only could not be read.
func TestErrorsKeepTheirKind(t *testing.T) {
	tests := []struct {
		name  string
		fault ossim.Fault
		kind  cloud.Kind
	}{
		{"throttled", ossim.Fault{Status: 429, RetryAfter: 3 * time.Second}, cloud.KindThrottled},
		{"forbidden", ossim.Fault{Status: 403}, cloud.KindDenied},
		{"down", ossim.Fault{Status: 503}, cloud.KindUnavailable},
		{"endpoint gone", ossim.Fault{Status: 404}, cloud.KindUnknown},
		{"cut", ossim.Fault{Reset: true}, cloud.KindUnavailable},
		{"truncated", ossim.Fault{Truncate: true}, cloud.KindUnknown},
	}
	x := newLBTest(t, 1, "")
	x.ensure(x.spec)
	before := x.objects()
	for _, service := range []string{"load-balancer", "network"} {
		for _, tt := range tests {
			t.Run(service+"/"+tt.name, func(t *testing.T) {
				fault := tt.fault
				fault.Service = service
				defer x.sim.AddFault(fault)()
				x.restart()
				ctx := testContext(t)
				_, ensureErr := x.lbs.Ensure(ctx, x.spec)
				for name, err := range map[string]error{"Ensure": ensureErr, "Delete": x.lbs.Delete(ctx, x.spec)} {
					if err == nil || cloud.KindOf(err) != tt.kind || cloud.RetryAfter(err) != fault.RetryAfter {
						t.Errorf("%s: %v of %v after %s, want %v", name, err, cloud.KindOf(err), cloud.RetryAfter(err), tt.kind)
					}
				}
				if after := x.objects(); !slices.Equal(before, after) {
					t.Errorf("objects %q became %q", before, after)
				}
			})
		}
	}
}

// TestMemberSubnet (#2638): members are in their own subnet, not in that of a VIP elsewhere.
func TestMemberSubnet(t *testing.T) {
	x := newLBTest(t, 2, "")
	ctx, o := testContext(t), x.op()
	nodes := x.lbs.cfg.LoadBalancer.SubnetID
	network, err := networks.Create(ctx, o.neutron, networks.CreateOpts{Name: "vips"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	vips, err := subnets.Create(ctx, o.neutron, subnets.CreateOpts{NetworkID: network.ID, CIDR: fmt.Sprintf("127.%d.77.0/24", x.sim.Net()), IPVersion: 4}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		settings cloud.Settings
		want     string
	}{
		{"VIP among the nodes", cloud.Settings{}, nodes},
		{"VIP elsewhere", cloud.Settings{plan.AnnSubnetID: vips.ID}, nodes},
		{"named", cloud.Settings{plan.AnnSubnetID: vips.ID, plan.AnnMemberSubnetID: vips.ID}, vips.ID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.settings[plan.AnnInternal] = "true"
			spec := x.service("web", tt.settings)
			x.ensure(spec)
			for _, p := range x.tree(spec).Pools {
				for _, m := range p.Members {
					if m.SubnetID != tt.want {
						t.Errorf("member %s is in subnet %s, want %s", m.Name, m.SubnetID, tt.want)
					}
				}
			}
			x.delete(spec)
		})
	}
	// Without any subnet in the configuration the VIP goes where the nodes are.
	x.lbs.cfg.LoadBalancer.SubnetID = ""
	status := x.ensure(x.spec)
	if got := x.lb(status.Annotations[plan.AnnLoadBalancerID]).VIPSubnetID; got != nodes {
		t.Errorf("the VIP is in subnet %s, want %s", got, nodes)
	}
	none := x.service("none", nil)
	none.Members = nil
	if _, err := x.lbs.Ensure(ctx, none); cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), "subnet-id") {
		t.Errorf("Ensure without nodes and subnet: %v, want KindInvalid with the next step", err)
	}
}

// TestRefusedChildren: Octavia keeps the VIP's port of a fully populated create that it
// refuses. However often a Service asks in vain, that happens once at most, the user reads
// what is refused, and a corrected Service is served by what is there.
func TestRefusedChildren(t *testing.T) {
	x := newLBTestOn(t, ossim.Options{StateDelay: 3 * time.Millisecond, LeakVIPPorts: true}, 2, "")
	t.Cleanup(func() { logCalls(t, x.sim) })
	const noSubnet = "01234567-89ab-cdef-0123-456789abcdef"
	x.spec.Settings[plan.AnnMemberSubnetID] = noSubnet
	for range 3 {
		_, err := x.lbs.Ensure(testContext(t), x.spec)
		if cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), "set members") || !strings.Contains(err.Error(), noSubnet) {
			t.Fatalf("Ensure: %v, want KindInvalid naming the members and the subnet", err)
		}
		x.restart()
	}
	if s := x.sim.Snapshot(); len(s.LoadBalancers) != 1 {
		t.Errorf("%d load balancers, want 1", len(s.LoadBalancers))
	}
	vips := 0
	for _, p := range x.sim.Snapshot().Ports {
		if strings.HasPrefix(p.Name, "octavia-lb-") {
			vips++
		}
	}
	if vips > 2 {
		t.Errorf("%d VIP ports after three attempts, want the load balancer's and one that Octavia forgot", vips)
	}
	delete(x.spec.Settings, plan.AnnMemberSubnetID)
	x.ensure(x.spec)
	x.wantConverged(x.spec, "amphora")
	x.delete(x.spec)
	x.wantNothing("after the deletion")
}

// TestCreateWithoutAnAnswer: what Octavia did is not known, so nothing is made a second time.
func TestCreateWithoutAnAnswer(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusTooManyRequests} {
		x := newLBTest(t, 1, "")
		posts := 0
		x.sim.OnMutation(func(m ossim.Mutation) {
			if !m.After && m.Method == http.MethodPost && m.Path == "/lbaas/loadbalancers" {
				posts++
				m.Fail(status, "try later")
			}
		})
		if _, err := x.lbs.Ensure(testContext(t), x.spec); err == nil || posts != 1 {
			t.Errorf("status %d: %v after %d creates, want an error after 1", status, err, posts)
		}
	}
}

// TestMemberSubnetOfTheNodesOwnServer: another server of the project, in another network of
// the same CIDR, has a node's address.
func TestMemberSubnetOfTheNodesOwnServer(t *testing.T) {
	x := newLBTest(t, 1, "")
	ctx, o := testContext(t), x.op()
	nodes := x.lbs.cfg.LoadBalancer.SubnetID
	cidr, err := o.subnets.CIDR(ctx, nodes)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // lists come in the order of IDs: one of them comes first
		network, err := networks.Create(ctx, o.neutron, networks.CreateOpts{Name: fmt.Sprintf("other-%d", i)}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		subnet, err := subnets.Create(ctx, o.neutron, subnets.CreateOpts{NetworkID: network.ID, CIDR: cidr.String(), IPVersion: 4}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		if err := ports.Create(ctx, o.neutron, ports.CreateOpts{NetworkID: network.ID, DeviceID: fmt.Sprintf("01234567-89ab-cdef-0123-456789abcde%d", i), DeviceOwner: "compute:nova",
			FixedIPs: []ports.IP{{SubnetID: subnet.ID, IPAddress: x.all[0].Addresses[0].String()}}}).Err; err != nil {
			t.Fatal(err)
		}
	}
	x.lbs.cfg.LoadBalancer.SubnetID = ""
	status := x.ensure(x.spec)
	if got := x.lb(status.Annotations[plan.AnnLoadBalancerID]).VIPSubnetID; got != nodes {
		t.Errorf("the VIP is in subnet %s, want %s", got, nodes)
	}
	x.delete(x.spec)
	x.spec = x.service("web", nil)
	x.spec.Members[0].Node.ProviderID = ""
	if _, err := x.lbs.Ensure(ctx, x.spec); cloud.KindOf(err) != cloud.KindInvalid || !strings.Contains(err.Error(), "have the address") {
		t.Errorf("Ensure of a node whose server is not known: %v, want KindInvalid naming the subnets", err)
	}
}
