package pvlabel_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// TestNodesAppear: what was not added because no Node was there is added as soon as there is
// one, be it new or one that gets its labels late. While there are Nodes that wait for theirs,
// there is no complaint.
func TestNodesAppear(t *testing.T) {
	c := newCluster(t)
	c.node("node-az1", zoned("az1"))
	c.slip("early", slipped{zone: "az2"})
	counted, stop := c.run(nil)
	eventually.Met(c.t, func() string { return c.differs("early", slipped{event: "ZoneWithoutNodes"}) })
	c.node("node-late", nil)
	nodes := c.client.CoreV1().Nodes()
	late := func(change func(*corev1.Node)) {
		t.Helper()
		node, err := nodes.Get(t.Context(), "node-late", metav1.GetOptions{})
		if err == nil {
			change(node)
			_, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	late(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	})
	c.slip("later", slipped{zone: "az3"})
	c.slip("sign", slipped{zone: "az1"}) // decided together with the one before
	added := func(az string) slipped {
		return slipped{labels: map[string]string{zone: az, region: ossim.Region}, affinity: required(in(region, ossim.Region), in(zone, az)), event: "ZoneAdded"}
	}
	eventually.Met(c.t, func() string { return c.differs("sign", added("az1")) })
	if _, n := counted.count(); n != 1 {
		t.Errorf("%d patches before there was a Node, want one", n)
	}
	c.node("node-az2", zoned("az2"))
	late(func(n *corev1.Node) { n.Labels = zoned("az3") })
	for name, az := range map[string]string{"early": "az2", "later": "az3"} {
		eventually.Met(c.t, func() string { return c.differs(name, added(az)) })
	}
	stop()
	if _, n := counted.count(); n != 3 {
		t.Errorf("%d patches, want one each", n)
	}
	for name, complaints := range map[string]int{"early": 1, "later": 0} {
		if events := c.events(name); len(events["ZoneWithoutNodes"]) != complaints || len(events["ZoneAdded"]) != 1 {
			t.Errorf("%s: events %v, want %d complaints and that it was added", name, events, complaints)
		}
	}
}

// TestLeadershipLostWhileWriting: writes that hang when leadership is lost are waited for, no
// further one begins, and none may take longer than another leader waits for (the lease's
// duration less the renew deadline).
func TestLeadershipLostWhileWriting(t *testing.T) {
	const atATime, count, spare = 10, 25, 5 * time.Second
	c := newCluster(t)
	for k := range count {
		c.slip(fmt.Sprintf("held-%d", k), slipped{zone: "az1"})
	}
	hangs, release := make(chan struct{}, count), make(chan struct{})
	counted, stop := c.run(func(r *http.Request) {
		if r.Method != http.MethodPatch {
			return
		}
		if at, ok := r.Context().Deadline(); !ok || time.Until(at) > spare || r.URL.Query().Get("timeout") == "" {
			t.Errorf("%s may take until %v", r.URL, at)
		}
		hangs <- struct{}{}
		<-release
	})
	for range atATime {
		<-hangs
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	select {
	case <-ended:
		t.Error("the controller ended while writes were under way")
	case <-time.After(300 * time.Millisecond):
	}
	close(release)
	<-ended
	if _, n := counted.count(); n != atATime {
		t.Errorf("%d writes, want the %d that were under way", n, atATime)
	}
}

// TestDryRun: with --dry-run, whose transport has the API server store nothing, a
// PersistentVolume is tried once and stays as it is.
func TestDryRun(t *testing.T) {
	c := newCluster(t)
	c.node("node-az1", zoned("az1"))
	c.slip("dry", slipped{zone: "az1"})
	before := c.get("dry").ResourceVersion
	clk := testclock.NewFakeClock(time.Now())
	counted, stop := c.runBy(clk, func(r *http.Request) {
		if query := r.URL.Query(); r.Method == http.MethodPatch {
			query.Set("dryRun", "All")
			r.URL.RawQuery = query.Encode()
		}
	})
	eventually.Met(c.t, func() string { return c.differs("dry", slipped{event: "ZoneAdded"}) })
	c.slip("later", slipped{zone: "az1"})
	eventually.Met(c.t, func() string { // once this one had its turn, a retry of the other had it too
		clk.Step(time.Hour)
		return c.differs("later", slipped{event: "ZoneAdded"})
	})
	stop()
	if objects, n := counted.count(); n != objects {
		t.Errorf("%d writes were tried for %d PersistentVolumes, want one each", n, objects)
	}
	if after := c.get("dry"); after.ResourceVersion != before {
		t.Errorf("it was written: %v", after.Labels)
	}
}
