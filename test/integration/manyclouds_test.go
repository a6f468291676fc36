package integration

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/ccm/apiclient"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/test/rbacaudit"
)

// fakeNode is a Node of an instance of fakeCloud that has been initialized.
func fakeNode(name string, ready corev1.ConditionStatus, podCIDRs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "fake:///" + name, PodCIDRs: podCIDRs}}
	if len(podCIDRs) > 0 {
		n.Spec.PodCIDR = podCIDRs[0]
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	return n
}

// New Nodes get their pod CIDRs of the cloud, by the questions that initialize them.
func TestNodesHaveThePodCIDRsOfTheCloud(t *testing.T) {
	c := newCluster(t)
	var names []string
	for n := range 20 {
		names = append(names, fmt.Sprintf("node-%d", n))
	}
	f := newFakeCloud(names...)
	f.provider.GivesPodCIDRs = true
	want := map[string]string{}
	for n, name := range names {
		node := fakeNode(name, corev1.ConditionTrue)
		node.Spec.ProviderID = ""
		node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}
		c.create(node)
		want[name] = fmt.Sprintf("10.244.%d.0/24 initialized", 100+n)
	}
	c.startFake(f, "--controllers=*,node-ipam-controller", "--allocate-node-cidrs", "--cidr-allocator-type=CloudAllocator", "--configure-cloud-routes=false")
	eventually.Met(t, func() string {
		got := map[string]string{}
		for name, n := range c.nodes() {
			got[name] = n.Spec.PodCIDR
			if !hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) {
				got[name] += " initialized"
			}
		}
		return cmp.Diff(want, got)
	})
	f.do(func() {
		if f.finds >= len(names) || len(f.gets) > 0 {
			t.Errorf("%d questions in batches and %v alone for %d Nodes", f.finds, f.gets, len(names))
		}
	})
}

// A cloud that gives no pod CIDRs says so at the start.
func TestCloudWithoutPodCIDRsRefusesToStart(t *testing.T) {
	c := newCluster(t)
	m := c.startFake(newFakeCloud(), "--controllers=node-ipam-controller", "--allocate-node-cidrs", "--cidr-allocator-type=CloudAllocator")
	eventually.Received(t, "the manager ends", m.Ended)
	if err := m.Stop(); err == nil || !strings.Contains(err.Error(), "--cidr-allocator-type=CloudAllocator: cloud fake gives its instances no pod CIDRs") {
		t.Errorf("ended with %v", err)
	}
}

// A blackhole in a Node's way is replaced, and one that its route becomes goes with it; an
// operator's stays.
func TestBlackholes(t *testing.T) {
	c, f := newCluster(t), newFakeCloud("a", "b")
	cidr, other, operators := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("10.244.2.0/24"), netip.MustParsePrefix("10.244.200.0/24")
	for _, at := range []netip.Prefix{cidr, operators} {
		f.routes[at] = cloud.Route{Destination: at, Blackhole: true}
	}
	c.create(fakeNode("a", corev1.ConditionTrue, cidr.String()))
	c.create(fakeNode("b", corev1.ConditionTrue, other.String()))
	c.startFake(f)
	want := map[netip.Prefix]cloud.Hop{cidr: {Target: "fake:///a"}, other: {Target: "fake:///b"}, operators: {Blackhole: true}}
	is := func() string {
		got := map[netip.Prefix]cloud.Hop{}
		for at, r := range f.table() {
			got[at] = r.Hop()
		}
		return cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b cloud.Hop) bool { return a == b }))
	}
	eventually.Met(t, is)
	eventually.Met(t, func() string {
		for name, n := range c.nodes() {
			if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
			}) {
				return name + " is not said to be in the network"
			}
		}
		return ""
	})
	f.terminate("a")
	c.setReady("a", corev1.ConditionFalse)
	delete(want, cidr)
	eventually.Met(t, is)
	if _, there := c.nodes()["a"]; there {
		t.Error("the Node is still there")
	}
	events, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=RouteConflict"})
	if err != nil || len(events.Items) > 0 {
		t.Errorf("events %v, %v", events, err)
	}
}

// A Node whose instance the cloud does not know yet stays, until the cloud must know it.
func TestNewbornNodeIsDeletedWhenTheCloudMustKnowItsInstance(t *testing.T) {
	c, f := newCluster(t), newFakeCloud("a", "b", "c")
	for _, name := range []string{"a", "b", "c", "newborn"} {
		c.create(fakeNode(name, corev1.ConditionFalse))
	}
	f.provider.Newborn = time.Hour
	m := c.startFake(f)
	eventually.Met(t, func() string {
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := f.gets["newborn"]; n < 5 {
			return fmt.Sprintf("the cloud was asked %d times", n)
		}
		return ""
	})
	if _, there := c.nodes()["newborn"]; !there {
		t.Fatal("the newborn Node is deleted")
	}
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	f.provider.Newborn = time.Nanosecond
	c.startFake(f)
	eventually.Met(t, func() string {
		if _, there := c.nodes()["newborn"]; there {
			return "the Node is still there"
		}
		return ""
	})
}

// A provider reads the Secret and the ConfigMap that its configuration names, with rights for
// these and no others, and marks the cloud's objects with what Identify says.
func TestProviderUsesTheCluster(t *testing.T) {
	const namespace = metav1.NamespaceSystem
	c, f := newCluster(t), newFakeCloud("a")
	f.provider.KubeObjects = []cloud.KubeObject{{Kind: cloud.KubeSecret, Namespace: namespace, Name: fakeSecret}, {Kind: cloud.KubeConfigMap, Namespace: namespace, Name: fakeMap}}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: manifests.Namespace, Name: manifests.ServiceAccount}
	roles, err := apiclient.ProviderRoles(f.provider.KubeObjects, account)
	if err != nil {
		t.Fatal(err)
	}
	secrets, maps := c.client.CoreV1().Secrets(namespace), c.client.CoreV1().ConfigMaps(namespace)
	t.Cleanup(func() {
		for _, err := range []error{secrets.Delete(context.Background(), fakeSecret, metav1.DeleteOptions{}), maps.Delete(context.Background(), fakeMap, metav1.DeleteOptions{})} {
			if ignoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	if err := c.Apply(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fakeSecret}, Data: map[string][]byte{"key": []byte("one")}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	keys := follow(f, namespace)
	c.create(fakeNode("a", corev1.ConditionTrue, "10.244.1.0/24"))
	m := c.startFake(f)
	keys.want(t, "one")
	patch := func(data string) {
		if _, err := secrets.Patch(t.Context(), fakeSecret, types.MergePatchType, []byte(data), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.listSecret(namespace, fakeSecret)
	patch(`{"stringData":{"key":"two"}}`)
	keys.want(t, "one", "two")
	eventually.Met(t, func() string {
		if len(f.table()) != 1 {
			return "the Node has no route"
		}
		return ""
	})
	made, err := maps.Get(t.Context(), fakeMap, metav1.GetOptions{})
	if err != nil || !f.marked(made.Data["id"]) || !strings.HasPrefix(made.Data["id"], "made-of-") {
		t.Errorf("ConfigMap %v, %v; marks %v", made.Data, err, f.ids)
	}
	if err := secrets.Delete(t.Context(), fakeSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	keys.want(t, "one", "two", "")
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	user := "system:serviceaccount:" + manifests.Namespace + ":" + manifests.ServiceAccount
	eventually.Met(t, func() string {
		requests, err := c.Requests()
		if err == nil {
			err = rbacaudit.Compare(roles, []string{user}, requests)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// A cluster's name that was written down before is the one that counts.
func TestClusterKeepsItsNameInTheCloud(t *testing.T) {
	c, f := newCluster(t), newFakeCloud("a")
	f.provider.Identify = func(_ context.Context, cluster cloud.Cluster) (string, error) {
		if cluster.ID != cluster.UID || cluster.UID == "" {
			t.Errorf("identify %+v: want its UID for its ID", cluster)
		}
		return "blue", nil
	}
	c.create(fakeNode("a", corev1.ConditionTrue, "10.244.1.0/24"))
	c.startFake(f)
	eventually.Met(t, func() string {
		if !f.marked("blue") {
			return "nothing is marked with the name"
		}
		return ""
	})
}

// listSecret lists a Secret as the manager's account, as its informer does with API servers that cannot
// send what there is by a watch.
func (c *cluster) listSecret(namespace, name string) {
	c.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	if list, err := client.CoreV1().Secrets(namespace).List(c.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name}); err != nil || len(list.Items) != 1 {
		c.t.Errorf("%d Secrets, %v; want one", len(list.Items), err)
	}
}

func (f *fakeCloud) marked(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return id != "" && f.ids[id] && len(f.ids) == 1
}

// followed are the keys that a provider has seen in its Secret.
type followed struct {
	mu   sync.Mutex
	keys []string
}

// follow has f's provider follow its Secret in the background.
func follow(f *fakeCloud, namespace string) *followed {
	k := &followed{}
	f.run = func(ctx context.Context, kube cloud.Kube) error {
		return kube.WatchSecret(ctx, namespace, fakeSecret, func(data map[string][]byte) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.keys = append(k.keys, string(data["key"]))
		})
	}
	return k
}

func (k *followed) want(t *testing.T, keys ...string) {
	t.Helper()
	eventually.Met(t, func() string {
		k.mu.Lock()
		defer k.mu.Unlock()
		return cmp.Diff(keys, k.keys)
	})
}
