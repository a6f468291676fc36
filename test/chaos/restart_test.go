package chaos

import (
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// startReplicas starts count replicas with certificates from files, which register the
// webhooks with this policy, and the balancer.
func (c *cluster) startReplicas(count int, a *authority, policy admissionregistrationv1.FailurePolicyType, args ...string) ([]*replica, []*mount, *balancer) {
	c.t.Helper()
	mounts := make([]*mount, count)
	for i := range mounts {
		mounts[i] = newMount(c.t, a.issue())
	}
	replicas, b := c.newReplicas(count, func(i int) []string {
		return append([]string{"--webhook-cert-dir=" + mounts[i].dir, "--webhook-failure-policy=" + string(policy)}, args...)
	})
	c.startAll(replicas, b)
	return replicas, mounts, b
}

// selfManaged makes replicas that issue their certificates themselves, not started, and the
// balancer.
func (c *cluster) selfManaged(count int, policy admissionregistrationv1.FailurePolicyType) ([]*replica, *balancer) {
	c.t.Helper()
	return c.newReplicas(count, func(int) []string {
		return append(componentArgs(c.t, "webhook-self-managed"), "--webhook-failure-policy="+string(policy))
	})
}

// newReplicas makes replicas that are not started, and the balancer.
func (c *cluster) newReplicas(count int, args func(i int) []string) ([]*replica, *balancer) {
	c.t.Helper()
	replicas := make([]*replica, count)
	for i := range replicas {
		replicas[i] = c.newReplica(i, args(i)...)
	}
	return replicas, c.newBalancer(c.service(), replicas...)
}

// startAll starts the replicas and waits until all is as it shall be.
func (c *cluster) startAll(replicas []*replica, b *balancer) {
	c.t.Helper()
	for _, r := range replicas {
		r.start()
	}
	for _, r := range replicas {
		r.waitReady()
	}
	c.waitEndpoints(b, len(replicas))
	c.waitCalled()
}

func (c *cluster) waitEndpoints(b *balancer, count int) {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		if b.endpoints() != count {
			return "the balancer does not know all replicas yet"
		}
		return ""
	})
}

// A rolling restart of three replicas, as a DaemonSet does it, costs no creation although
// the policy is Fail.
func TestRollingRestartFailsNoCreation(t *testing.T) {
	c, a := newCluster(t), newAuthority(t)
	// A cloud that takes its time keeps several connections to each replica in use.
	c.sim.AddFault(ossim.Fault{Service: "volume", Latency: 150 * time.Millisecond})
	slowness := c.slowness()
	delay := times(5*time.Second, slowness, 25*time.Second) // what is shipped on a quiet machine, and within --shutdown-timeout
	replicas, _, b := c.startReplicas(3, a, admissionregistrationv1.Fail, "--webhook-shutdown-delay="+delay.String())
	l := c.load("rolling", pace{perSecond: max(1, int(50/slowness))}, c.volumes(300))
	time.Sleep(time.Second)
	for _, r := range replicas {
		told := time.Now()
		r.end()
		// A request that is sent as its connection closes is lost: nobody can say whether it was
		// served. So long before that, connections must be out of use: requests in flight end
		// theirs, and new ones go elsewhere.
		quiet := told.Add(r.shutdownDelay() - time.Second)
		if last := b.lastHeard(r); !last.Before(quiet) {
			t.Errorf("%s was sent requests until %s after it was told to end, which closes connections after %s", r.name, last.Sub(told).Round(time.Millisecond), r.shutdownDelay())
		}
		r.start()
		r.waitReady()
	}
	time.Sleep(time.Second)
	all := l.stop()
	t.Logf("%d creations in %s: p50 %s, p99 %s, max %s; %d connections, %d of them refused", len(all), time.Since(l.begun).Round(time.Second),
		quantile(all, .5), quantile(all, .99), quantile(all, 1), b.opened, b.refused)
	mustAllBeLabeled(t, all)
}
