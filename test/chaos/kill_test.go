package chaos

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// All replicas are killed while the policy is Ignore: creations pass meanwhile, without labels,
// and within 30 s of the replicas' return every PersistentVolume has them. The lease of the
// leader that was killed has to run out first, which takes half of that.
func TestAllKilledIsBackfilled(t *testing.T) {
	c, a := newCluster(t), newAuthority(t)
	c.nodes()                                                                                                                                         // without any in its zone, a PersistentVolume gets no affinity afterwards
	replicas, _, b := c.startReplicas(3, a, admissionregistrationv1.Ignore, "--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s") // the defaults
	l := c.load("killed", pace{perSecond: 50, inFlight: 20}, c.volumes(300))
	time.Sleep(time.Second)
	for _, r := range replicas {
		r.kill()
	}
	c.waitEndpoints(b, 0)
	eventually.Met(t, func() string {
		pvs, err := c.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(pvs.Items, func(pv corev1.PersistentVolume) bool { return labeled(&pv) != "" }) {
			return "no creation slips past the webhook"
		}
		return ""
	})
	all := l.stop()
	missed := 0
	for _, created := range all {
		if created.err != nil {
			t.Errorf("creation after %s: %v", created.at, created.err)
		} else if labeled(created.pv) != "" {
			missed++
		}
	}
	if missed == 0 {
		t.Fatal("no creation slipped past the webhook: there is nothing to backfill")
	}
	back := time.Now()
	for _, r := range replicas {
		r.start()
	}
	eventually.Met(t, func() string {
		pvs, err := c.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		without := 0
		for i := range pvs.Items {
			if labeled(&pvs.Items[i]) != "" {
				without++
			}
		}
		if without > 0 || len(pvs.Items) != len(all) {
			return fmt.Sprintf("%d of %d PersistentVolumes still lack labels or affinity; %d were created", without, len(pvs.Items), len(all))
		}
		return ""
	})
	t.Logf("%d creations, %d of them without the webhook, labeled %s after the return", len(all), missed, time.Since(back).Round(100*time.Millisecond))
}

// nodes creates a Node in each zone of the volumes, for the test.
func (c *cluster) nodes() {
	c.t.Helper()
	api := c.client.CoreV1().Nodes()
	for _, zone := range []string{"az1", "az2", "az3"} {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + zone, Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: "RegionOne"}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		if _, err := api.Create(c.t.Context(), node, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() {
			if err := api.Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
				c.t.Error(err)
			}
		})
	}
}
