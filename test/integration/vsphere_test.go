package integration

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	sim "github.com/isthmus-cloud/isthmus/test/cloudsim/vsphere"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// The binary serves vSphere: Nodes are initialized by the names and UUIDs of their machines, go with those, and stay while a vCenter
// is down or shows nothing; PersistentVolumes get their zone.
func TestVSphere(t *testing.T) {
	c := newCluster(t)
	v, err := sim.New(t.Context(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	w := vsphere.World{VCenter: v}
	var machines []cloudtest.Instance
	for n := range 3 {
		m, err := w.MakeInstance(t.Context(), fmt.Sprint("vs-", n))
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, m)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Ref.NodeName}, Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}}}
		if n == 0 { // kubelets tell it in one of two orders
			node.Status.NodeInfo.SystemUUID = m.MachineID
		}
		c.create(node)
	}
	p := c.launchOn([]string{"--cloud-provider=vsphere", "--cloud-config=" + w.Config()}, "--webhooks=*", "--leader-elect=false", "--configure-cloud-routes=false",
		"--node-monitor-period=200ms")
	p.wait("/readyz", http.StatusOK)
	p.webhook.wait("/readyz", http.StatusOK)
	for _, m := range machines {
		eventually.Met(t, func() string {
			n := c.nodes()[m.Ref.NodeName]
			if n.Spec.ProviderID != m.Ref.ProviderID || n.Labels[corev1.LabelTopologyZone] != m.Zone || n.Labels[corev1.LabelTopologyRegion] == "" ||
				n.Labels[corev1.LabelInstanceTypeStable] == "" || addressOf(n, corev1.NodeInternalIP) != m.Addresses[0].String() || hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) {
				return fmt.Sprintf("Node %s: %+v, %+v, %+v", m.Ref.NodeName, n.Labels, n.Spec, n.Status.Addresses)
			}
			return ""
		})
	}
	if err := w.DeleteInstance(t.Context(), machines[2]); err != nil {
		t.Fatal(err)
	}
	eventually.Met(t, func() string {
		if n := len(c.nodes()); n != 2 {
			return fmt.Sprintf("%d Nodes, want 2", n)
		}
		return ""
	})
	c.registerAll(p)
	pv, zone, err := w.MakeVolume(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pv.Name, pv.Spec.Capacity = "data", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	eventually.Met(t, func() string { // the API server takes a moment to take notice
		got, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || got.Labels[corev1.LabelTopologyZone] != zone || got.Spec.NodeAffinity == nil {
			return errorText(err)
		}
		return ""
	})
	w.Down()
	before := w.Requests.Load()
	eventually.Met(t, func() string { // several looks at Nodes that are not ready
		if n := w.Requests.Load() - before; n < 10 {
			return fmt.Sprintf("%d requests of a vCenter that is down", n)
		}
		return ""
	})
	if n := len(c.nodes()); n != 2 {
		t.Errorf("%d Nodes while the vCenter is down, want 2", n)
	}
}
