package chaos

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// 1,000 PersistentVolumes of as many volumes, created by 50 clients at a time, cost the cloud
// at most a call each, in a project that has more of them.
func TestManyCreationsCostFewCloudCalls(t *testing.T) {
	c, a := newCluster(t), newAuthority(t)
	c.startReplicas(1, a, admissionregistrationv1.Fail)
	const total = 1000
	ids := c.volumes(total)
	c.volumes(3 * total) // others, which the cloud lists first
	c.sim.ResetRequests()
	all := c.load("many", pace{perSecond: 10_000, total: total, inFlight: 50}, ids).done()
	mustAllBeLabeled(t, all)
	calls := c.sim.Count("volume", "")
	t.Logf("%d creations, %d cloud calls: p50 %s, p99 %s", len(all), calls, quantile(all, .5), quantile(all, .99))
	if len(all) != total || calls == 0 || calls > total {
		t.Errorf("%d creations cost %d cloud calls, want at most one each", len(all), calls)
	}
}
