package rig

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// Cluster is a control plane of one manager, and what a watch of it has seen.
type Cluster struct {
	*controlplane.ControlPlane
	// user is as whom the contender writes.
	user string

	nodes    corelisters.NodeLister
	services corelisters.ServiceLister
	unwatch  func()

	// ServiceAnnotations are those of the Services that Publish makes.
	ServiceAnnotations map[string]string
}

// The two ServiceAccounts: ours has what the manifests give it, the other one may do anything.
const (
	namespace    = manifests.Namespace
	OurAccount   = manifests.ServiceAccount
	OtherAccount = "other-cloud-controller-manager"
)

// StartCluster starts a control plane and watches it. The kubeconfig in dir acts as account.
func StartCluster(ctx context.Context, account, dir string) (*Cluster, error) {
	cp, err := controlplane.Run(controlplane.Options{Audit: true, APIServerArgs: map[string][]string{"service-cluster-ip-range": {"10.0.0.0/20"}}})
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: cp, user: "system:serviceaccount:" + namespace + ":" + account, unwatch: func() {}}
	if err := errors.Join(c.admit(ctx, account, filepath.Join(dir, "kubeconfig")), c.watch(ctx)); err != nil {
		return nil, errors.Join(err, c.End())
	}
	return c, nil
}

// admit gives account its rights and writes its kubeconfig.
func (c *Cluster) admit(ctx context.Context, account, kubeconfig string) error {
	if account == OurAccount {
		rbac, err := manifests.RBAC()
		if err != nil {
			return err
		}
		if err := c.Apply(ctx, rbac); err != nil {
			return err
		}
	} else if err := c.admitOther(ctx, account); err != nil {
		return err
	}
	config, err := c.ServiceAccountConfig(ctx, namespace, account, 12*time.Hour)
	if err != nil {
		return err
	}
	return controlplane.WriteKubeconfig(kubeconfig, config)
}

func (c *Cluster) admitOther(ctx context.Context, account string) error {
	_, err := c.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create ServiceAccount %s: %w", account, err)
	}
	_, err = c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("bind ServiceAccount %s: %w", account, err)
	}
	return nil
}

// watch begins the watch, so that looking costs the API server nothing.
func (c *Cluster) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	c.nodes, c.services = factory.Core().V1().Nodes().Lister(), factory.Core().V1().Services().Lister()
	factory.Start(ctx.Done())
	c.unwatch = func() { cancel(); factory.Shutdown() }
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("watch of %v: it never began", kind)
		}
	}
	return nil
}

// End ends it.
func (c *Cluster) End() error {
	c.unwatch()
	return c.Stop()
}

// Wrote is how many writes the contender has made, leases aside.
func (c *Cluster) Wrote() (int, error) {
	all, err := c.Writes()
	n := 0
	for _, w := range all {
		if w.User == c.user {
			n++
		}
	}
	return n, err
}

// Machine is what a Node runs on: uuid is what its firmware says, which kubelets report.
type Machine struct {
	Name, UUID string
	Labels     map[string]string
}

// Register makes a Node for each machine, as kubelets with --cloud-provider=external do.
func (c *Cluster) Register(ctx context.Context, machines []Machine) error {
	return inParallel(machines, func(m Machine) error {
		now := metav1.Now()
		_, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: m.Labels},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}},
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: m.Name}},
				NodeInfo:   corev1.NodeSystemInfo{SystemUUID: m.UUID},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create Node %s: %w", m.Name, err)
		}
		return nil
	})
}

// Initialized is how many Nodes have all that a cloud controller manager gives them.
func (c *Cluster) Initialized() int {
	n := 0
	for _, node := range c.Nodes() {
		tainted, addressed := false, false
		for _, t := range node.Spec.Taints {
			tainted = tainted || t.Key == cloudproviderapi.TaintExternalCloudProvider
		}
		for _, a := range node.Status.Addresses {
			addressed = addressed || a.Type == corev1.NodeInternalIP
		}
		if !tainted && addressed && node.Spec.ProviderID != "" && node.Labels[corev1.LabelTopologyZone] != "" {
			n++
		}
	}
	return n
}

// Nodes are all Nodes.
func (c *Cluster) Nodes() []*corev1.Node {
	list, err := c.nodes.List(labels.Everything())
	if err != nil { // a lister reads memory: it has no errors
		return nil
	}
	return list
}

// Unready makes a Node's condition Ready unknown, as the node controller does once the kubelet is silent.
func (c *Cluster) Unready(ctx context.Context, name string) error {
	patch := `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`
	if _, err := c.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("make Node %s unready: %w", name, err)
	}
	return nil
}

const serviceNamespace = metav1.NamespaceDefault

// Publish creates Services of two ports at once, so that after have of them there are n.
func (c *Cluster) Publish(ctx context.Context, have, n int) error {
	names := make([]string, n-have)
	for i := range names {
		names[i] = fmt.Sprintf("race-%d", have+i)
	}
	return inParallel(names, func(name string) error {
		_, err := c.Client.CoreV1().Services(serviceNamespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: c.ServiceAnnotations},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create Service %s: %w", name, err)
		}
		return nil
	})
}

// Hide deletes all Services of type LoadBalancer.
func (c *Cluster) Hide(ctx context.Context) error {
	return inParallel(c.Balanced(), func(s *corev1.Service) error {
		if err := c.Client.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete Service %s: %w", s.Name, err)
		}
		return nil
	})
}

// Balanced are the Services of type LoadBalancer.
func (c *Cluster) Balanced() []*corev1.Service {
	list, err := c.services.List(labels.Everything())
	if err != nil { // see Nodes
		return nil
	}
	var out []*corev1.Service
	for _, s := range list {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			out = append(out, s)
		}
	}
	return out
}

// Published is how many Services have an address.
func (c *Cluster) Published() int {
	n := 0
	for _, s := range c.Balanced() {
		if len(s.Status.LoadBalancer.Ingress) > 0 {
			n++
		}
	}
	return n
}

// Leader is who holds the lease, "" for nobody.
func (c *Cluster) Leader(ctx context.Context) string {
	lease, err := c.Client.CoordinationV1().Leases(namespace).Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return strings.TrimSpace(*lease.Spec.HolderIdentity)
}

// inParallel calls f for each of list, 20 at a time.
func inParallel[T any](list []T, f func(T) error) error {
	work, errs := make(chan int), make([]error, len(list))
	var wg sync.WaitGroup
	for range min(20, len(list)) {
		wg.Go(func() {
			for i := range work {
				errs[i] = f(list[i])
			}
		})
	}
	for i := range list {
		work <- i
	}
	close(work)
	wg.Wait()
	return errors.Join(errs...)
}
