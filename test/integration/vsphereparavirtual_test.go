package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	"github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// The binary serves a guest cluster of a Supervisor, which is another API server: Nodes are initialized by the names of their
// machines, reached by routes, and go with their machines; a Service gets an address and gives it back; and while the Supervisor is
// down nobody is taken for gone.
func TestVSphereParavirtual(t *testing.T) {
	c := newCluster(t)
	supervisor := controlplane.Start(t)
	if err := paravirtual.InstallCRDs(t.Context(), supervisor); err != nil {
		t.Fatal(err)
	}
	w, err := paravirtual.New(t.Context(), supervisor, t.TempDir(), "guest-namespace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	conf, err := w.Config(strings.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	var machines []cloudtest.Instance
	for n := range 3 {
		m, err := w.MakeInstance(t.Context(), fmt.Sprint("guest-node-", n))
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, m)
		cidr := fmt.Sprintf("10.244.%d.0/24", n+1)
		c.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Ref.NodeName}, Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr},
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}, NodeInfo: corev1.NodeSystemInfo{SystemUUID: m.MachineID}}})
	}
	p := c.launchOn([]string{"--cloud-provider=vsphere-paravirtual", "--cloud-config=" + conf, "--cluster-name=guest", "--cluster-cidr=10.244.0.0/16"}, "--leader-elect=false",
		"--controllers=*,-node-ipam-controller", "--node-monitor-period=200ms", "--route-reconciliation-period=1s")
	p.wait("/readyz", http.StatusOK)
	for _, m := range machines {
		eventually.Met(t, func() string {
			n := c.nodes()[m.Ref.NodeName]
			if n.Spec.ProviderID != m.Ref.ProviderID || n.Labels[corev1.LabelTopologyZone] != m.Zone || addressOf(n, corev1.NodeInternalIP) != m.Addresses[0].String() || hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) {
				return fmt.Sprintf("Node %s: %+v, %+v, %+v", m.Ref.NodeName, n.Labels, n.Spec, n.Status.Addresses)
			}
			return ""
		})
	}
	routes := func(want int) {
		t.Helper()
		eventually.Met(t, func() string {
			all, err := w.Routes(t.Context())
			if err != nil || len(all) != want {
				return fmt.Sprintf("routes %v, want %d (%v)", all, want, err)
			}
			return ""
		})
	}
	routes(3)
	c.createService(loadBalancerService("web", corev1.ServicePort{Port: 80}))
	ip := ""
	eventually.Met(t, func() string {
		s, _ := c.service("web")
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return "the Service has no address; events: " + c.eventsOf("web")
		}
		ip = s.Status.LoadBalancer.Ingress[0].IP
		return ""
	})
	if lb, err := w.LoadBalancer(t.Context(), ip); err != nil || lb == nil || len(lb.Listeners) != 1 || len(lb.Listeners[0].Members) != 3 {
		t.Errorf("published is %s, which is %+v, %v", ip, lb, err)
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
	routes(2)
	c.deleteService("web")
	eventually.Met(t, func() string {
		all, err := w.Objects(paravirtual.VMServices).List(t.Context(), metav1.ListOptions{})
		if _, there := c.service("web"); err != nil || len(all.Items) > 0 || there {
			return fmt.Sprintf("%d objects are left, the Service itself: %t (%v)", len(all.Items), there, err)
		}
		return ""
	})
	w.Refuse(http.StatusServiceUnavailable)
	w.Requests()
	seen := 0
	eventually.Met(t, func() string { // several looks at Nodes that are not ready
		if seen += len(w.Requests()); seen < 10 {
			return fmt.Sprintf("%d requests of a Supervisor that is down", seen)
		}
		return ""
	})
	if n := len(c.nodes()); n != 2 {
		t.Errorf("%d Nodes while the Supervisor is down, want 2", n)
	}
}
