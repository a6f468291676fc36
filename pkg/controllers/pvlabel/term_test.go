package pvlabel_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// TestNodesAppear: what was not added because no Node was there is added once there is one.
func TestNodesAppear(t *testing.T) {
	c := newCluster(t)
	c.node("node-az1", zoned("az1"))
	c.slip("early", slipped{zone: "az2"})
	clk := testclock.NewFakeClock(time.Now())
	counted, stop := c.runBy(clk, nil)
	c.eventually(func() string { return c.differs("early", slipped{event: "ZoneWithoutNodes"}) })
	c.node("node-az2", zoned("az2"))
	if _, n := counted.count(); n > 0 {
		t.Errorf("%d patches before there was a Node", n)
	}
	c.eventually(func() string {
		clk.Step(time.Hour)
		return c.differs("early", slipped{
			labels: map[string]string{zone: "az2", region: ossim.Region}, affinity: required(in(region, ossim.Region), in(zone, "az2")), event: "ZoneAdded",
		})
	})
	stop()
	if _, n := counted.count(); n != 1 {
		t.Errorf("%d patches, want one", n)
	}
	if events := c.events("early"); len(events["ZoneWithoutNodes"]) != 1 || len(events["ZoneAdded"]) != 1 {
		t.Errorf("events %v, want one of each", events)
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
	c.slip("dry", slipped{zone: "az1"})
	before := c.get("dry").ResourceVersion
	clk := testclock.NewFakeClock(time.Now())
	counted, stop := c.runBy(clk, func(r *http.Request) {
		if query := r.URL.Query(); r.Method == http.MethodPatch {
			query.Set("dryRun", "All")
			r.URL.RawQuery = query.Encode()
		}
	})
	c.eventually(func() string { return c.differs("dry", slipped{event: "ZoneAdded"}) })
	c.slip("later", slipped{zone: "az1"})
	c.eventually(func() string { // once this one had its turn, a retry of the other had it too
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
