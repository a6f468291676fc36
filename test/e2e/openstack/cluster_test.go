//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// patience is how long anything may take: the machine may be busy, and the tests assert no times.
const patience = 10 * time.Minute

// clusterName is part of the name of every load balancer that these tests make.
const clusterName = "e2e"

// thePlane is the control plane of all tests: it starts with the first that needs it.
var thePlane struct {
	sync.Once
	plane      *controlplane.ControlPlane
	kubeconfig string
	err        error
}

// servers of all tests; those that stop or delete servers boot their own.
var sharedServers struct {
	sync.Once
	servers []server
	release []func() error
}

func stopControlPlane() error {
	if thePlane.plane == nil {
		return nil
	}
	return thePlane.plane.Stop()
}

// cluster is a real kube-apiserver as one test sees it: without Nodes and Services of others.
type cluster struct {
	t      *testing.T
	cloud  *realCloud
	proxy  *proxy
	plane  *controlplane.ControlPlane
	client *kubernetes.Clientset
	// kubeconfig acts as the ServiceAccount that ships, with its rights and no others.
	kubeconfig string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	cloud := theCloud(t)
	binary(t, "") // first, so that no test's time includes the build
	p := &thePlane
	p.Do(func() {
		defer progress("starting etcd and kube-apiserver")()
		p.err = startPlane()
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	c := &cluster{t: t, cloud: cloud, plane: p.plane, client: p.plane.Client, kubeconfig: p.kubeconfig}
	t.Cleanup(func() {
		c.clean()
		if t.Failed() {
			c.sweep()
		}
	})
	c.proxy = newProxy(t, cloud)
	return c
}

func startPlane() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p := &thePlane
	var err error
	if p.plane, err = controlplane.Run(controlplane.Options{}); err != nil {
		return err
	}
	for _, read := range []func() ([]byte, error){manifests.RBAC, manifests.RegistrationRBAC, manifests.SelfManagedRBAC} {
		rbac, err := read()
		if err != nil {
			return err
		}
		if err := p.plane.Apply(ctx, rbac); err != nil {
			return err
		}
	}
	config, err := p.plane.ServiceAccountConfig(ctx, manifests.Namespace, manifests.ServiceAccount, 2*time.Hour)
	if err != nil {
		return err
	}
	p.kubeconfig = filepath.Join(built.dir, "kubeconfig")
	return controlplane.WriteKubeconfig(p.kubeconfig, config)
}

// clean removes what the test leaves in the cluster.
func (c *cluster) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	core := c.client.CoreV1()
	all := metav1.ListOptions{}
	errs := []error{
		core.Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		core.Events("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
	}
	services, err := core.Services("").List(ctx, all)
	errs = append(errs, err)
	for _, s := range services.Items {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		_, err := core.Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		errs = append(errs, err, core.Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}))
	}
	for _, err := range errs {
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			c.t.Errorf("clean the cluster up: %v", err)
		}
	}
}

// nodes returns n servers that all tests share, each registered as a Node as its kubelet does.
func (c *cluster) nodes(n int) []server {
	c.t.Helper()
	out := c.servers(n)
	for i, server := range out {
		c.register(server, fmt.Sprintf("10.244.%d.0/24", i))
	}
	return out
}

// servers returns n servers that all tests share.
func (c *cluster) servers(n int) []server {
	c.t.Helper()
	s := &sharedServers
	const most = 3
	s.Do(func() {
		defer progress("booting servers")()
		keep := &keeper{TB: c.t, release: &s.release}
		s.servers = c.cloud.boot(keep, "node0", "node1", "node2")
	})
	if len(s.servers) != most {
		c.t.Fatal("the servers that the tests share did not boot")
	}
	return slices.Clone(s.servers[:n])
}

// keeper is a test whose cleanups run with the package's end.
type keeper struct {
	testing.TB
	mu      sync.Mutex
	release *[]func() error
	failed  []string
}

func (k *keeper) Cleanup(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*k.release = append(*k.release, func() error {
		k.failed = nil
		f()
		if len(k.failed) > 0 {
			return errors.New(strings.Join(k.failed, "; "))
		}
		return nil
	})
}

func (k *keeper) Errorf(format string, args ...any) {
	k.failed = append(k.failed, fmt.Sprintf(format, args...))
	if len(sharedServers.servers) == 0 { // the test still runs
		k.TB.Errorf(format, args...)
	}
}

// releaseServers removes the shared servers.
func releaseServers() error {
	s := &sharedServers
	if len(s.release) == 0 {
		return nil
	}
	defer progress("deleting servers")()
	var errs []error
	for _, f := range slices.Backward(s.release) {
		errs = append(errs, f())
	}
	s.release = nil
	return errors.Join(errs...)
}

// register creates a server's Node as a kubelet with --cloud-provider=external does, and
// makes it Ready.
func (c *cluster) register(s server, podCIDR string) {
	c.t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{corev1.LabelHostname: s.name}},
		Spec: corev1.NodeSpec{
			PodCIDR: podCIDR, PodCIDRs: []string{podCIDR},
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	if _, err := c.client.CoreV1().Nodes().Create(c.t.Context(), node, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.setReady(s.name, corev1.ConditionTrue)
}

// setReady sets the Node's condition Ready, as its kubelet (True) and kube-controller-manager
// (Unknown, when the kubelet is silent) do.
func (c *cluster) setReady(name string, status corev1.ConditionStatus) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	if _, err := c.client.CoreV1().Nodes().Patch(c.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	return c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// initialized waits until the Nodes of the servers have lost their taint.
func (c *cluster) initialized(servers []server) {
	c.t.Helper()
	c.eventually("Nodes are initialized", func(ctx context.Context) error {
		for _, s := range servers {
			n, err := c.node(ctx, s.name)
			if err != nil {
				return err
			}
			if hasTaint(n, cloudproviderapi.TaintExternalCloudProvider) || n.Spec.ProviderID == "" {
				return fmt.Errorf("Node %s is not initialized", s.name)
			}
		}
		return nil
	})
}

// eventually waits until check returns nil, saying so when it takes long, and fails the test
// with its last error otherwise.
func (c *cluster) eventually(what string, check func(context.Context) error) {
	c.t.Helper()
	done := progress(what)
	err := poll(c.t.Context(), patience, check)
	done()
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}
