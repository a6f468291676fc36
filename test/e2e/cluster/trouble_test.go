//go:build e2e

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/test/cluster"
)

// leader is who holds the lease, and the pod it is.
func leader(ctx context.Context, c *cluster.Cluster) (identity string, pod *corev1.Pod, err error) {
	lease, err := c.Client.CoordinationV1().Leases("kube-system").Get(ctx, "cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		return "", nil, err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", nil, errors.New("nobody holds the lease")
	}
	pods, err := c.Client.CoreV1().Pods(cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", nil, err
	}
	for _, p := range pods.Items { // with the host's network, the identity begins with the Node's name
		if strings.HasPrefix(*lease.Spec.HolderIdentity, p.Spec.NodeName+"_") || strings.HasPrefix(*lease.Spec.HolderIdentity, p.Name+"_") {
			return *lease.Spec.HolderIdentity, &p, nil
		}
	}
	return *lease.Spec.HolderIdentity, nil, fmt.Errorf("nobody is %s", *lease.Spec.HolderIdentity)
}

// killLeader kills the leader's process; another does the work then.
func killLeader(t *testing.T, c *cluster.Cluster, url cluster.Hello) {
	identity, pod, err := leader(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	m := machine(t, c, pod.Spec.NodeName)
	if n, err := m.KillPod(string(pod.UID)); err != nil || n != 1 {
		t.Fatalf("kill the leader %s: %d processes, %v", pod.Name, n, err)
	}
	eventually(t, "there is another leader", 2*time.Minute, func(ctx context.Context) error {
		now, _, err := leader(ctx, c)
		if err == nil && now == identity {
			err = fmt.Errorf("it is still %s", identity)
		}
		return err
	})
	// It works: a change of the Service reaches the cloud.
	service := must[*corev1.Service](t)(c.Client.CoreV1().Services("default").Get(t.Context(), cluster.HelloName, metav1.GetOptions{}))
	service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: "again", Port: 81, TargetPort: service.Spec.Ports[0].TargetPort})
	if _, err := c.Client.CoreV1().Services("default").Update(t.Context(), service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it serves the Service's new port", time.Minute, func(ctx context.Context) error {
		_, err := url.WithPort(81).Ask(ctx)
		return err
	})
}

func machine(t *testing.T, c *cluster.Cluster, node string) *cluster.Machine {
	t.Helper()
	i := slices.IndexFunc(c.Machines, func(m *cluster.Machine) bool { return m.Name == node })
	if i < 0 {
		t.Fatalf("there is no machine %s", node)
	}
	return c.Machines[i]
}

// leave takes a Node out of the cluster as one does who wants no request to fail: it is taken off the load balancers,
// then drained, then its server is deleted.
func leave(t *testing.T, c *cluster.Cluster, m *cluster.Machine) {
	nodes := c.Client.CoreV1().Nodes()
	eventually(t, m.Name+" is marked", time.Minute, func(ctx context.Context) error {
		node, err := nodes.Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Unschedulable = true
		node.Labels[corev1.LabelNodeExcludeBalancers] = ""
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	eventually(t, "the load balancer has left "+m.Name, time.Minute, func(context.Context) error {
		for _, member := range c.Cloud.Snapshot().Members {
			if strings.Contains(member.Name+" "+member.Info, m.Address.String()) || strings.Contains(member.Name, m.Name) {
				return fmt.Errorf("it has the member %s %s", member.Name, member.Info)
			}
		}
		return nil
	})
	pods := must[*corev1.PodList](t)(c.Client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + m.Name}))
	for _, p := range pods.Items {
		if err := c.Client.CoreV1().Pods(p.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}); err != nil {
			t.Logf("evict %s/%s: %v", p.Namespace, p.Name, err)
		}
	}
	eventually(t, m.Name+" is drained", time.Minute, func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + m.Name})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("pod %s is still there", pods.Items[0].Name)
		}
		return err
	})
	if err := c.Remove(m); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its Node is gone", 2*time.Minute, func(ctx context.Context) error {
		_, err := nodes.Get(ctx, m.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}

// checkFail: with webhooks that nothing passes by, the cluster starts from tainted Nodes, and again after all
// power was lost at once.
func checkFail(t *testing.T, c *cluster.Cluster) {
	m, err := c.Add(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Install(t.Context(), "webhooks.failurePolicy=Fail"); err != nil {
		t.Fatal(err)
	}
	checkNodes(t, c)
	eventually(t, "hello runs on "+m.Name+", too", time.Minute, func(ctx context.Context) error { return running(ctx, c, 2) })
	checkVolume(t, c, "second")
	if err := c.StartHello(t.Context()); err != nil { // its Service was deleted
		t.Fatal(err)
	}
	url := address(t, c)
	checkAnswers(t, c, url, 2)

	for _, m := range c.Machines {
		if err := m.PowerOff(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := url.Ask(t.Context()); err == nil {
		t.Error("somebody answers without power")
	}
	for _, m := range c.Machines {
		if err := c.Boot(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all pods run again", 3*time.Minute, func(ctx context.Context) error { return running(ctx, c, 2) })
	checkVolume(t, c, "third")
	checkAnswers(t, c, url, 2)
	deleteService(t, c)
}
