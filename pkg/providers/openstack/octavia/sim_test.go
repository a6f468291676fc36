package octavia

import (
	"context"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/nova"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

const (
	missingID = "00000000-0000-4000-8000-00000000dead"
	idA       = "aaaaaaaa-0000-4000-8000-000000000001"
	idB       = "bbbbbbbb-0000-4000-8000-000000000002"
)

// newLoadBalancers makes the provider's part of a cloud.conf, nil where it is turned off.
func newLoadBalancers(t *testing.T, sim *ossim.Sim, conf string) *LoadBalancers {
	t.Helper()
	c, cfg := apitest.Open(t, sim, conf)
	if !cfg.LoadBalancer.Enabled {
		return nil
	}
	return New(c, cfg, nova.New(c, cfg, false).Exists)
}

// testOp is an operation to reach the cloud with, as the code under test does.
type testOp struct {
	*reconciliation
	octavia, neutron *gophercloud.ServiceClient
}

func (x *lbTest) op() *testOp {
	x.t.Helper()
	r, err := x.lbs.operation(testContext(x.t), x.spec.LoadBalancerRef)
	if err != nil {
		x.t.Fatal(err)
	}
	sc, err := x.lbs.c.Service(testContext(x.t), "load-balancer")
	if err != nil {
		x.t.Fatal(err)
	}
	network, err := x.lbs.c.Service(testContext(x.t), api.Network)
	if err != nil {
		x.t.Fatal(err)
	}
	return &testOp{r, sc, network}
}

func (o *testOp) call(ctx context.Context, id string, c plan.Change) error {
	return o.reconciliation.octavia.Change(ctx, id, c)
}

func (o *testOp) get(ctx context.Context, id string) (*plan.LoadBalancer, error) {
	return o.reconciliation.octavia.Get(ctx, id)
}

func (o *testOp) readTree(ctx context.Context, id string) (*plan.Tree, error) {
	return o.reconciliation.octavia.Tree(ctx, id)
}

func (o *testOp) waitActive(ctx context.Context, id string) (*plan.LoadBalancer, error) {
	return o.reconciliation.waitActive(ctx, id, o.waits.total)
}

func (o *testOp) deleteLB(ctx context.Context, lb *plan.LoadBalancer) error {
	o.lb = lb
	return o.reconciliation.deleteLB(ctx, true)
}

func (o *testOp) retag(ctx context.Context, lb *plan.LoadBalancer, change func([]string) []string) error {
	o.lb = lb
	return o.reconciliation.retag(ctx, change)
}

func testContext(t *testing.T) context.Context { return apitest.Context(t) }

func calls(sim *ossim.Sim) int { return apitest.Calls(sim) }

func logCalls(t *testing.T, sim *ossim.Sim) { apitest.LogCalls(t, sim) }
