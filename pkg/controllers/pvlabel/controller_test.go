package pvlabel_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/pv"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

const (
	zone   = corev1.LabelTopologyZone
	region = corev1.LabelTopologyRegion
	own    = "topology.cinder.csi.openstack.org/zone"
)

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func required(reqs ...corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: reqs}}}}
}

// zoned are a Node's labels.
func zoned(name string) map[string]string {
	return map[string]string{zone: name, region: ossim.Region, own: name}
}

// slipped is one PersistentVolume that was created without the webhook, and what becomes of it.
type slipped struct {
	change   func(*corev1.PersistentVolume)
	source   func(name, id string) *corev1.PersistentVolume
	zone     string // of the volume; none is no volume
	attached string // the Node
	// What is expected; unchanged labels and no affinity when nil.
	labels   map[string]string
	affinity *corev1.VolumeNodeAffinity
	event    string // reason and a part of the text
}

func cases() map[string]slipped {
	both := map[string]string{zone: "az1", region: ossim.Region}
	place := required(in(region, ossim.Region), in(zone, "az1"))
	labeled := func(labels map[string]string) func(*corev1.PersistentVolume) {
		return func(pv *corev1.PersistentVolume) { pv.Labels = labels }
	}
	bind := func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: pv.Name}
	}
	mine, abroad, nowhere := required(in(own, "az1")), required(in(zone, "az2")), required(in(zone, "az7"))
	return map[string]slipped{
		"in-tree":   {zone: "az1", labels: both, affinity: place, event: "ZoneAdded topology.kubernetes.io/zone=az1, node affinity"},
		"csi":       {zone: "az1", source: staticCSI, labels: both, affinity: required(in(own, "az1"), in(region, ossim.Region), in(zone, "az1")), event: "ZoneAdded"},
		"half":      {zone: "az1", change: labeled(map[string]string{zone: "az1", "app": "db"}), labels: map[string]string{zone: "az1", region: ossim.Region, "app": "db"}, affinity: place, event: "ZoneAdded"},
		"labeled":   {zone: "az1", change: labeled(both), labels: both, affinity: place, event: "ZoneAdded node affinity"},
		"affinity":  {zone: "az1", change: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = mine }, labels: both, affinity: mine, event: "ZoneAdded"},
		"user":      {zone: "az1", change: labeled(map[string]string{zone: "az9"}), event: "ZoneContradicted label topology.kubernetes.io/zone=az9 contradicts the volume's az1"},
		"beta":      {zone: "az1", change: labeled(map[string]string{corev1.LabelFailureDomainBetaZone: "az9"}), event: "ZoneContradicted failure-domain.beta.kubernetes.io/zone=az9 contradicts"},
		"opted-out": {zone: "az1", change: labeled(map[string]string{pv.OptOutLabel: "true"})},
		"gone":      {event: "VolumeNotFound does not exist in the cloud"},
		"bad-id":    {source: func(name, _ string) *corev1.PersistentVolume { return static(name, "data-1") }, event: "ZoneInvalid is not a Cinder volume's UUID"},
		"foreign": {source: func(name, id string) *corev1.PersistentVolume {
			return volume(name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "nfs.csi.k8s.io", VolumeHandle: id}})
		}},
		"placeholder": {source: func(name, _ string) *corev1.PersistentVolume { return static(name, "placeholder-for-provisioning") }},
		"dynamic": {
			change: func(pv *corev1.PersistentVolume) {
				pv.Annotations, pv.Labels = map[string]string{"pv.kubernetes.io/provisioned-by": "kubernetes.io/cinder"}, map[string]string{zone: "az1", region: ossim.Region}
			}, labels: both, affinity: place, event: "ZoneAdded",
		},
		"dynamic-csi": {source: staticCSI, change: func(pv *corev1.PersistentVolume) {
			pv.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "x"}
		}},
		"bound":         {zone: "az1", change: bind, labels: both, affinity: place, event: "ZoneAdded"},
		"in-use":        {zone: "az1", change: bind, attached: "node-az1", labels: both, affinity: place, event: "ZoneAdded"},
		"in-use-abroad": {zone: "az1", change: bind, attached: "node-az2", event: "AttachedOutsideOfZone attached to Node node-az2, which is not in topology.kubernetes.io/region"},
		"nowhere":       {zone: "az7", event: "ZoneWithoutNodes no Node that it can be used on is in topology.kubernetes.io/region=RegionOne, topology.kubernetes.io/zone=az7"},
		"elsewhere": {zone: "az1", change: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = abroad }, affinity: abroad,
			event: "ZoneWithoutNodes no Node that it can be used on is in"},
		"lost": {zone: "az7", change: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = nowhere }, affinity: nowhere,
			labels: map[string]string{zone: "az7", region: ossim.Region}, event: "ZoneAdded"},
		"driverless": {zone: "az3", source: staticCSI, labels: map[string]string{zone: "az3", region: ossim.Region}, event: "ZoneWithoutNodes no Node is in topology.cinder"},
		"deleted":    {zone: "az1", change: func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{"example.com/kept"} }},
	}
}

// TestBackfill: everything that can be missing, or in the way.
func TestBackfill(t *testing.T) {
	c := newCluster(t)
	c.node("node-az1", zoned("az1"))
	c.node("node-az2", zoned("az2"))
	c.node("node-az3", map[string]string{zone: "az3", region: ossim.Region})
	all := cases()
	for name, tt := range all {
		c.slip(name, tt)
	}
	defer c.label("deleted", `{"metadata":{"finalizers":null}}`)
	counted, stop := c.run(nil)
	changed := 0
	for name, tt := range all {
		if tt.labels != nil {
			changed++
		}
		eventually.Met(c.t, func() string { return c.differs(name, tt) })
		if events := c.events(name); tt.event == "" && len(events) > 0 || len(events) > 2 {
			t.Errorf("%s: events %v", name, events)
		}
	}
	if objects, patches := counted.count(); objects != changed || patches != changed {
		t.Errorf("%d patches of %d objects, want one for each of %d", patches, objects, changed)
	}
	if !slices.Equal(counted.others, []string{"GET /apis/storage.k8s.io/v1/volumeattachments"}) {
		t.Errorf("other requests: %v; want one for all attachments", counted.others)
	}
	// A user takes the contradiction away: the rest is added, and the matter is settled.
	c.label("user", `{"metadata":{"labels":{"topology.kubernetes.io/zone":null}}}`)
	eventually.Met(c.t, func() string { return c.differs("user", all["in-tree"]) })
	for name, tt := range all {
		if name != "user" {
			if what := c.differs(name, tt); what != "" {
				t.Error(what)
			}
		}
		for reason, texts := range c.events(name) {
			if len(texts) > 1 {
				t.Errorf("%s: %d events %s", name, len(texts), reason)
			}
		}
	}
	stop()
}

// slip creates a PersistentVolume, its volume and its attachment.
func (c *cluster) slip(name string, tt slipped) {
	c.t.Helper()
	id := "00000000-0000-4000-8000-000000000000"
	if tt.zone != "" {
		id = c.sim.AddVolume(name, tt.zone).ID
	}
	if tt.source == nil {
		tt.source = static
	}
	object := tt.source(name, id)
	if tt.change != nil {
		tt.change(object)
	}
	object = c.create(object)
	if len(object.Finalizers) > 0 && name == "deleted" {
		if err := c.client.CoreV1().PersistentVolumes().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	if tt.attached == "" {
		return
	}
	api := c.client.StorageV1().VolumeAttachments()
	a, err := api.Create(c.t.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "cinder.csi.openstack.org", NodeName: tt.attached, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	a.Status.Attached = true
	if _, err := api.UpdateStatus(c.t.Context(), a, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) label(name, patch string) {
	c.t.Helper()
	if _, err := c.client.CoreV1().PersistentVolumes().Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// differs says what of the PersistentVolume is not as expected.
func (c *cluster) differs(name string, tt slipped) string {
	object := c.get(name)
	want := tt.labels
	if want == nil {
		want = map[string]string{}
		if tt.change != nil {
			before := static(name, "")
			tt.change(before)
			for k, v := range before.Labels {
				want[k] = v
			}
		}
	}
	got := object.Labels
	if got == nil {
		got = map[string]string{}
	}
	if diff := cmp.Diff(want, got) + cmp.Diff(tt.affinity, object.Spec.NodeAffinity); diff != "" {
		return fmt.Sprintf("%s (-want +got):\n%s", name, diff)
	}
	if tt.event == "" {
		return ""
	}
	reason, text, _ := strings.Cut(tt.event, " ")
	events := c.events(name)
	if !slices.ContainsFunc(events[reason], func(message string) bool { return strings.Contains(message, text) }) {
		return fmt.Sprintf("%s: events %v, want %s with %q", name, events, reason, text)
	}
	return ""
}

// TestAllReplicasKilled: while no replica is there, policy Ignore lets a thousand
// PersistentVolumes pass. Of the replicas that return, the first ends half-way. All are
// labeled with one write each, and the cloud is asked a few times only.
func TestAllReplicasKilled(t *testing.T) {
	c := newCluster(t)
	defer c.deadWebhook()()
	c.node("node-az1", zoned("az1"))
	const count = 1000
	names := make(chan *corev1.PersistentVolume)
	var creators sync.WaitGroup
	for range 20 {
		creators.Go(func() {
			for object := range names {
				if _, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for k := range count {
		names <- static(fmt.Sprintf("pv-%d", k), c.sim.AddVolume("v", "az1").ID)
	}
	close(names)
	creators.Wait()
	c.sim.ResetRequests()

	began := time.Now()
	half := make(chan struct{})
	var patches atomic.Int64
	first, stop := c.run(func(r *http.Request) {
		if r.Method == http.MethodPatch {
			if patches.Add(1) == count/2 {
				close(half)
			}
		}
	})
	<-half
	stop()
	second, stop := c.run(nil)
	eventually.Met(c.t, func() string {
		list, err := c.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{LabelSelector: zone + "=az1," + region + "=" + ossim.Region})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) < count {
			return fmt.Sprintf("%d of %d are labeled", len(list.Items), count)
		}
		for _, object := range list.Items {
			if object.Spec.NodeAffinity == nil {
				t.Errorf("%s has no node affinity", object.Name)
			}
		}
		return ""
	})
	t.Logf("labeled %d PersistentVolumes in %s", count, time.Since(began))
	stop()
	one, some := first.count()
	two, rest := second.count()
	if some != one || rest != two || one+two != count {
		t.Errorf("%d and %d patches of %d and %d objects, want one for each of %d", some, rest, one, two, count)
	}
	if n := c.sim.Count("volume", ""); n > 4 {
		t.Errorf("%d calls to the cloud, want a list or two for each of two replicas", n)
	}
	c.sim.ResetRequests()
	third, stop := c.run(nil)
	time.Sleep(2 * time.Second)
	stop()
	if _, n := third.count(); n > 0 || c.sim.Count("volume", "") > 0 {
		t.Errorf("nothing is missing, but there were %d patches and %d calls to the cloud", n, c.sim.Count("volume", ""))
	}
}

// deadWebhook registers a webhook, with policy Ignore, that nobody serves.
func (c *cluster) deadWebhook() (remove func()) {
	c.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	url := "https://" + listener.Addr().String() + "/"
	_ = listener.Close()
	ignore, none := admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNone
	api := c.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err = api.Create(c.t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "dead"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "dead.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, FailurePolicy: &ignore, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"}}}},
		}}}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return func() {
		if err := api.Delete(c.t.Context(), "dead", metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	}
}

// TestCloudDown: nothing is written and few events are published while the cloud does not
// answer; what was missing is added when it does.
func TestCloudDown(t *testing.T) {
	c := newCluster(t)
	c.node("node-az1", zoned("az1"))
	undo := c.sim.AddFault(ossim.Fault{Service: "volume", Status: http.StatusServiceUnavailable})
	for _, name := range []string{"one", "two", "three"} {
		c.slip(name, slipped{zone: "az1"})
	}
	counted, stop := c.run(nil)
	eventually.Met(c.t, func() string {
		events := c.events("two")
		if len(events["ZoneUnknown"]) == 0 {
			return fmt.Sprintf("events: %v", events)
		}
		return ""
	})
	if _, n := counted.count(); n > 0 {
		t.Errorf("%d patches without the cloud's word", n)
	}
	undo()
	for _, name := range []string{"one", "two", "three"} {
		eventually.Met(c.t, func() string {
			return c.differs(name, slipped{labels: map[string]string{zone: "az1", region: ossim.Region}, affinity: required(in(region, ossim.Region), in(zone, "az1"))})
		})
		if events := c.events(name); len(events["ZoneUnknown"]) > 1 {
			t.Errorf("%s: events %v", name, events)
		}
	}
	stop()
}

// TestUserIsFaster: what a user writes between the decision and the write is not overwritten.
func TestUserIsFaster(t *testing.T) {
	c := newCluster(t)
	c.slip("raced", slipped{zone: "az1"})
	var once sync.Once
	counted, stop := c.run(func(r *http.Request) {
		if r.Method == http.MethodPatch {
			once.Do(func() { c.label("raced", `{"metadata":{"labels":{"topology.kubernetes.io/zone":"az5"}}}`) })
		}
	})
	eventually.Met(c.t, func() string {
		return c.differs("raced", slipped{labels: map[string]string{zone: "az5"}, event: "ZoneContradicted az5 contradicts the volume's az1"})
	})
	stop()
	if _, n := counted.count(); n != 1 {
		t.Errorf("%d patches, want one, which was refused", n)
	}
}
