//go:build e2e

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cli/status"
	"github.com/isthmus-cloud/isthmus/test/cluster"
)

// TestCluster: what ships makes a cluster whole, from the first Node on, and goes without a trace; then the
// same with webhooks that nothing passes by.
func TestCluster(t *testing.T) {
	c := start(t)
	digest := must[string](t)(c.PushManager(t.Context()))
	if err := c.StartHello(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkNobodyRuns(t, c)
	before := objects(t, c)

	if err := c.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkPulled(t, c, digest)
	checkNodes(t, c)
	checkStatus(t, c)
	eventually(t, "hello runs on both Nodes", time.Minute, func(ctx context.Context) error { return running(ctx, c, 2) })
	checkVolume(t, c, "first")
	url := address(t, c)
	checkAnswers(t, c, url, 2)

	traffic := cluster.Keep(t.Context(), url)
	killLeader(t, c, url)
	upgradeAndBack(t, c)
	leave(t, c, c.Machines[1])
	asked, failed := traffic.Stop()
	if t.Logf("%d requests while the leader was killed, the release upgraded and rolled back, and a Node left", asked); failed != nil || asked < 100 {
		t.Errorf("of %d requests failed: %v", asked, failed)
	}

	deleteService(t, c)
	uninstall(t, c, before)

	checkFail(t, c)
	uninstall(t, c, before)
}

// checkNobodyRuns: without a cloud controller manager, Nodes have its taint, and no pod runs on them.
func checkNobodyRuns(t *testing.T, c *cluster.Cluster) {
	eventually(t, "Nodes wait for their cloud", time.Minute, func(ctx context.Context) error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(nodes.Items) != len(c.Machines) {
			return fmt.Errorf("there are %d Nodes", len(nodes.Items))
		}
		for _, n := range nodes.Items {
			if !slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "node.cloudprovider.kubernetes.io/uninitialized" }) {
				return fmt.Errorf("node %s has no taint: %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
	eventually(t, "no pod has a place", time.Minute, func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 2 {
			return fmt.Errorf("there are %d pods", len(pods.Items))
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName != "" {
				t.Fatalf("pod %s runs on %s, whose taint it does not tolerate", p.Name, p.Spec.NodeName)
			}
			if !slices.ContainsFunc(p.Status.Conditions, func(s corev1.PodCondition) bool { return s.Reason == corev1.PodReasonUnschedulable }) {
				return fmt.Errorf("pod %s: %v", p.Name, p.Status.Conditions)
			}
		}
		return nil
	})
}

// checkPulled: the image of the running pods is the one that was built, and the kubelets pulled it from the private
// registry with what the credential provider answered; nothing else had a login.
func checkPulled(t *testing.T, c *cluster.Cluster, digest string) {
	pods := must[*corev1.PodList](t)(c.Client.CoreV1().Pods(cluster.Namespace).List(t.Context(), metav1.ListOptions{}))
	if len(pods.Items) == 0 {
		t.Fatal("there is no pod")
	}
	for _, p := range pods.Items {
		if len(p.Spec.ImagePullSecrets) != 0 {
			t.Errorf("pod %s has pull secrets", p.Name)
		}
		for _, s := range p.Status.ContainerStatuses {
			if !strings.Contains(s.ImageID, digest) {
				t.Errorf("pod %s runs %s, want %s", p.Name, s.ImageID, digest)
			}
		}
	}
	pulled := 0
	for line := range strings.Lines(must[string](t)(c.Registry.Log())) {
		if strings.Contains(line, "/v2/"+cluster.Manager+"/manifests/") && strings.Contains(line, `useragent="containerd/`) && strings.Contains(line, "http.response.status=200") {
			pulled++
		}
	}
	if pulled == 0 {
		t.Error("the registry's log has no pull by containerd")
	}
}

// checkNodes: all Nodes become what their servers are.
func checkNodes(t *testing.T, c *cluster.Cluster) {
	servers := map[string]string{}
	for _, s := range c.Cloud.Snapshot().Servers {
		servers[s.Name] = s.ID
	}
	for _, m := range c.Machines {
		eventually(t, m.Name+" is ready", 2*time.Minute, func(ctx context.Context) error { return c.Ready(ctx, m.Name) })
		node := must[*corev1.Node](t)(c.Client.CoreV1().Nodes().Get(t.Context(), m.Name, metav1.GetOptions{}))
		if want := "openstack:///" + servers[m.Name]; node.Spec.ProviderID != want {
			t.Errorf("provider ID of %s is %q, want %q", m.Name, node.Spec.ProviderID, want)
		}
		if node.Labels[corev1.LabelTopologyZone] == "" || node.Labels[corev1.LabelInstanceTypeStable] == "" {
			t.Errorf("node %s has the labels %v", m.Name, node.Labels)
		}
		if !slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool {
			return a.Type == corev1.NodeInternalIP && a.Address == m.Address.String()
		}) {
			t.Errorf("node %s has the addresses %v", m.Name, node.Status.Addresses)
		}
		eventually(t, "the cloud has a route to the pods of "+m.Name, time.Minute, func(context.Context) error {
			for _, r := range c.Cloud.Snapshot().Routes {
				if r.Name == node.Spec.PodCIDR+" via "+m.Address.String() {
					return nil
				}
			}
			return fmt.Errorf("no route %s via %s", node.Spec.PodCIDR, m.Address)
		})
	}
}

// checkStatus: isthmus status asks the leader, through the API server and the leader's kubelet, by what the chart has installed.
func checkStatus(t *testing.T, c *cluster.Cluster) {
	eventually(t, "the leader says its status", time.Minute, func(ctx context.Context) error {
		var out bytes.Buffer
		cmd := status.Command()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--kubeconfig", c.Kubeconfig, "--leader-service-account", cluster.Namespace + "/" + manifests.StatusReader, "-o", "json"})
		if err := cmd.ExecuteContext(ctx); err != nil {
			return err
		}
		var said struct {
			Source, LeaderNotAsked string
			Status                 struct{ Nodes struct{ Total int } }
		}
		if err := json.Unmarshal(out.Bytes(), &said); err != nil {
			return err
		}
		if said.Source != "leader" || said.Status.Nodes.Total != len(c.Machines) {
			return fmt.Errorf("of %d Nodes it is said: %+v", len(c.Machines), said)
		}
		return nil
	})
}

// checkAnswers: pods answer at url, and no others: the requests reach as many of them as there are.
func checkAnswers(t *testing.T, c *cluster.Cluster, url cluster.Hello, pods int) {
	seen := map[string]bool{}
	eventually(t, fmt.Sprintf("%d pods answer at %s", pods, url), time.Minute, func(ctx context.Context) error {
		pod, err := url.Ask(ctx)
		if err != nil {
			return err
		}
		seen[pod] = true
		if len(seen) != pods {
			return fmt.Errorf("only %q answer", slices.Collect(maps.Keys(seen)))
		}
		return nil
	})
	// What answered were pods behind node ports: each Node takes requests, also for the other's pod.
	for _, m := range c.Machines {
		service := must[*corev1.Service](t)(c.Client.CoreV1().Services("default").Get(t.Context(), cluster.HelloName, metav1.GetOptions{}))
		through := cluster.URLOf(m.Address.String(), int(service.Spec.Ports[0].NodePort))
		there := map[string]bool{}
		eventually(t, "both pods answer through "+m.Name, time.Minute, func(ctx context.Context) error {
			pod, err := through.Ask(ctx)
			if err != nil {
				return err
			}
			if there[pod] = true; len(there) < pods {
				return errors.New("only one of them yet")
			}
			return nil
		})
	}
}
