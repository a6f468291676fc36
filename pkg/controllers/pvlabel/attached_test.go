package pvlabel_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// complete is a PersistentVolume in az1 that has got all that it lacked.
func complete() slipped {
	return slipped{labels: map[string]string{zone: "az1", region: ossim.Region}, affinity: required(in(region, ossim.Region), in(zone, "az1"))}
}

// Node affinity cannot be changed later: while there are no Nodes, nobody knows whether one will ever fulfill it.
func TestNoAffinityWithoutNodes(t *testing.T) {
	c := newCluster(t)
	c.slip("early", slipped{zone: "az1"})
	counted, _ := c.run(nil)
	labeled := complete()
	labeled.affinity = nil
	eventually.Met(c.t, func() string { return c.differs("early", labeled) })
	if events := c.events("early"); len(events["ZoneWithoutNodes"]) != 0 {
		t.Errorf("it complains that there are no Nodes yet: %v", events)
	}
	c.node("elsewhere", zoned("az2"))
	c.node("first", zoned("az1"))
	eventually.Met(c.t, func() string { return c.differs("early", complete()) })
	if _, patches := counted.count(); patches != 2 {
		t.Errorf("%d patches, want one for the labels and one for the affinity", patches)
	}
}

// A Node that appears after the Nodes were read, and before it is noted that one is awaited, is not missed.
func TestNodeAppearsMeanwhile(t *testing.T) {
	c := newCluster(t)
	c.slip("early", slipped{zone: "az1"})
	var once sync.Once
	c.run(func(r *http.Request) {
		if r.Method == http.MethodPatch {
			once.Do(func() {
				c.node("meanwhile", zoned("az1"))
				timer := time.NewTimer(500 * time.Millisecond) // for the controller to see it
				defer timer.Stop()
				<-timer.C
			})
		}
	})
	eventually.Met(c.t, func() string { return c.differs("early", complete()) })
}

func (c *cluster) bound(name, zone string) {
	c.t.Helper()
	object := static(name, c.sim.AddVolume("v", zone).ID)
	object.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: "x"}
	c.create(object)
}

// While nobody knows where a PersistentVolume is attached, it gets nothing: its Pod could not be scheduled there
// again. One that is not bound is attached nowhere.
func TestAttachmentsCannotBeRead(t *testing.T) {
	c := newCluster(t)
	c.node("node-az1", zoned("az1"))
	c.bound("bound", "az1")
	c.slip("free", slipped{zone: "az1"})
	var down atomic.Bool
	var asked atomic.Int64
	down.Store(true)
	counted, _ := c.run(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/volumeattachments") && down.Load() {
			asked.Add(1)
			r.URL.Path += "-are-gone" // 404
		}
	})
	eventually.Met(c.t, func() string { return c.differs("free", complete()) })
	eventually.True(t, "three questions", func() bool { return asked.Load() >= 3 })
	if got := c.get("bound"); len(got.Labels) != 0 || got.Spec.NodeAffinity != nil {
		t.Errorf("a bound one got %v, %v", got.Labels, got.Spec.NodeAffinity)
	}
	if objects, _ := counted.count(); objects != 1 {
		t.Errorf("%d PersistentVolumes were written, want the free one", objects)
	}
	down.Store(false)
	eventually.Met(c.t, func() string { return c.differs("bound", complete()) })
}

// An attachment that is not made yet, or failed, does not say where a PersistentVolume is.
func TestOnlyAttachedCounts(t *testing.T) {
	c := newCluster(t)
	c.node("node-az1", zoned("az1"))
	c.node("node-az2", zoned("az2"))
	for k, attached := range []bool{true, false} {
		name := fmt.Sprintf("pv-%t", attached)
		c.bound(name, "az1")
		attachments := c.client.StorageV1().VolumeAttachments()
		a, err := attachments.Create(t.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-%d", k)},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "cinder.csi.openstack.org", NodeName: "node-az2", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a.Status.Attached = attached
		if _, err := attachments.UpdateStatus(t.Context(), a, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.run(nil)
	eventually.Met(c.t, func() string { return c.differs("pv-false", complete()) })
	eventually.Met(c.t, func() string {
		return c.differs("pv-true", slipped{event: "AttachedOutsideOfZone Nothing was added, as it is attached to Node node-az2"})
	})
}
