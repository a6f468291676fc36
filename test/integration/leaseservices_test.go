package integration

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// Two replicas, and the one that leads loses the API server while it makes a load balancer:
// it ends before the other one may begin, whatever its call to the cloud is doing, and the
// other one goes on with the same load balancer.
func TestLeaseLostWhileALoadBalancerIsMade(t *testing.T) {
	t.Parallel()
	const created = "/lbaas/loadbalancers"
	for _, tt := range []struct {
		name string
		// slow: Octavia needs longer than the leader may go on.
		slow bool
		// hang: the answer to the creation does not come before the leader's end.
		hang bool
	}{
		{name: "it waits for Octavia", slow: true},
		{name: "an answer does not come", hang: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t)
			lease := c.measureLease()
			sim, release := ossim.ForTest(t), func() {}
			if tt.slow {
				release = sim.HoldStates()
			}
			c.register(sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-"}), always(nodeState{ready: true, initialized: true}))
			before := leftovers(sim)

			begun, ended := make(chan struct{}, 10), make(chan struct{})
			sim.OnMutation(func(m ossim.Mutation) {
				if m.Method != http.MethodPost || !strings.HasSuffix(m.Path, created) || !m.After {
					return
				}
				begun <- struct{}{}
				if tt.hang {
					select {
					case <-ended:
					case <-sim.Done():
					}
				}
			})
			l, kubeconfig := c.through(t)
			service := append([]string{"--controllers=service"}, lease.args()...)
			first := c.startCCM(sim, append(slices.Clone(service), "--kubeconfig="+kubeconfig)...)
			c.waitForLeader()
			c.startCCM(sim, service...)
			c.createService(loadBalancerService("web", httpPort(80)))
			eventually.Received(t, "a load balancer is made", begun)

			holder := c.holder(mainLease)
			l.cut()
			first.wantLost(t)
			end := time.Now()
			close(ended)
			release()
			eventually.Met(t, func() string {
				if h := c.holder(mainLease); h == "" || h == holder {
					return "the other replica does not lead"
				}
				return ""
			})
			held, err := c.client.CoordinationV1().Leases("kube-system").Get(t.Context(), mainLease, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			// It gives up when a third of the lease is left. When the last of it is gone depends on the machine: it may need that third once
			// more. That it does nothing then TestNothingActsBeyondTheLease tells, and the count of creations below.
			begin := held.Spec.AcquireTime.Time
			if late := end.Sub(begin); late > lease.duration/3 {
				t.Errorf("the first replica ended %s after the other one had begun", late)
			}
			for _, r := range sim.Requests() {
				// A read that was under way may arrive late.
				if r.Service != "identity" && r.Method != http.MethodGet && r.Time.After(end) && r.Time.Before(begin) {
					t.Errorf("the cloud was changed by %s %s while nobody led", r.Method, r.Path)
				}
			}

			c.address("web")
			made := 0
			for _, r := range sim.Requests() {
				if r.Method == http.MethodPost && r.Path == created {
					made++
				}
			}
			if lbs := sim.LoadBalancers(); made != 1 || len(lbs) != 1 {
				t.Errorf("%d creations, load balancers %v; want one", made, lbs)
			}
			c.deleteService("web")
			eventually.Met(t, wantGone(c, sim, "web", before))
		})
	}
}
