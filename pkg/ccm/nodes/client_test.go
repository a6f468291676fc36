package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cloudnode "k8s.io/cloud-provider/controllers/node"
	cloudnodeutil "k8s.io/cloud-provider/node/helpers"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// The framework's node controller patches dual-stack Nodes at each sync though nothing has
// changed (nodeAddressesChangeDetected goes by type); with our client it patches those that
// have changed, and only these.
func TestComplaintNodeAddressesChangeDetected(t *testing.T) {
	address := func(kind corev1.NodeAddressType, a string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: kind, Address: a}
	}
	dual := []corev1.NodeAddress{
		address(corev1.NodeInternalIP, "10.0.0.5"), address(corev1.NodeInternalIP, "fd00::5"),
		address(corev1.NodeExternalIP, "192.0.2.5"), address(corev1.NodeExternalIP, "2001:db8::5"), address(corev1.NodeHostName, "a"),
	}
	swapped := slices.Clone(dual)
	swapped[0], swapped[1] = dual[1], dual[0]
	for _, test := range []struct {
		name         string
		before, now  []corev1.NodeAddress
		plain, fixed int // patches of three syncs without and with our client
	}{
		{"single stack", dual[1:2], dual[1:2], 0, 0},
		{"dual stack, the same", dual, dual, 3, 0},
		{"dual stack in another order", dual, swapped, 3, 3}, // the fake's informer does not see the patch
		{"one address less", dual, dual[:4:4], 3, 0},         // the host name is the kubelet's and stays
		{"another address", dual, append(slices.Clone(dual[:3]), address(corev1.NodeExternalIP, "2001:db8::6")), 3, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, wrap := range map[string]func(kubernetes.Interface) kubernetes.Interface{
				"plain": func(c kubernetes.Interface) kubernetes.Interface { return c },
				"fixed": func(c kubernetes.Interface) kubernetes.Interface { return nodeClient{c, nil} },
			} {
				node := instanceNode("test:///1")
				node.Status.Addresses = test.before
				answer := &oneAnswer{instance: &cloud.Instance{ProviderID: "test:///1", Addresses: test.now}}
				client := fake.NewClientset(node)
				factory := informers.NewSharedInformerFactory(client, 0)
				if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
					t.Fatal(err)
				}
				c, err := cloudnode.NewCloudNodeController(factory.Core().V1().Nodes(), wrap(client), testInstances(t, answer), time.Minute, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { // ends its queue
					ended, end := context.WithCancel(context.Background())
					end()
					c.RunWithContext(ended, controllersmetrics.NewControllerManagerMetrics("test"))
				})
				client.ClearActions()
				for range 3 {
					if err := c.UpdateNodeStatus(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				var patches []string
				for _, a := range client.Actions() {
					if p, ok := a.(clienttesting.PatchAction); ok {
						patches = append(patches, string(p.GetPatch()))
					}
				}
				want := map[string]int{"plain": test.plain, "fixed": test.fixed}[name]
				if diff := cmp.Diff(want, len(patches)); diff != "" {
					t.Errorf("patches of three syncs with the %s client (-want +got):\n%s\n%s", name, diff, fmt.Sprint(patches))
				}
			}
		})
	}
}

// A Node whose instance is shut down costs no read, however often it is looked at, and one write; only where
// the Node has changed meanwhile the API server is asked for it.
func TestShutDownNodesAreNotRead(t *testing.T) {
	taint := &corev1.Taint{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule}
	tainted := instanceNode("test:///1")
	tainted.Spec.Taints = []corev1.Taint{*taint}
	for _, test := range []struct {
		name      string
		known     *corev1.Node
		conflicts int
		want      []string
	}{
		{"not tainted yet", instanceNode("test:///1"), 0, []string{"patch"}},
		{"tainted", tainted, 0, nil},
		{"changed meanwhile", instanceNode("test:///1"), 1, []string{"patch", "get", "patch"}},
		{"not known yet", nil, 0, []string{"get", "patch"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewClientset(instanceNode("test:///1"))
			client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				if test.conflicts--; test.conflicts >= 0 {
					return true, nil, apierrors.NewConflict(corev1.Resource("nodes"), tainted.Name, errors.New("changed"))
				}
				return false, nil, nil
			})
			nodes := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes()
			if test.known != nil {
				if err := nodes.Informer().GetIndexer().Add(test.known); err != nil {
					t.Fatal(err)
				}
			}
			if err := cloudnodeutil.AddOrUpdateTaintOnNode(nodeClient{client, nodes.Lister()}, tainted.Name, taint); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range client.Actions() {
				got = append(got, a.GetVerb())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
