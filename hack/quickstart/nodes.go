package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The taints of k8s.io/cloud-provider/api.
const (
	taintUninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	taintShutdown      = "node.cloudprovider.kubernetes.io/shutdown"
)

// nodesJoin registers each server's Node as its kubelet does with --cloud-provider=external,
// and waits until the controller manager has initialized all of them.
func (w *world) nodesJoin(ctx context.Context) (string, error) {
	for i, server := range w.scene.machines {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: server.name, Labels: map[string]string{corev1.LabelHostname: server.name}},
			Spec: corev1.NodeSpec{
				PodCIDR:  fmt.Sprintf("10.244.%d.0/24", i),
				PodCIDRs: []string{fmt.Sprintf("10.244.%d.0/24", i)},
				Taints:   []corev1.Taint{{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			},
		}
		if _, err := w.cluster.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return "", err
		}
		if err := w.setReady(ctx, server.name, corev1.ConditionTrue); err != nil {
			return "", err
		}
	}
	var seen []string
	err := eventually(ctx, func(ctx context.Context) error {
		seen = nil
		for _, server := range w.scene.machines {
			node, err := w.cluster.Client.CoreV1().Nodes().Get(ctx, server.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := initialized(node, server, w.scene.region); err != nil {
				return err
			}
			seen = append(seen, fmt.Sprintf("%s %s %s", node.Name, internalIP(node), node.Labels[corev1.LabelTopologyZone]))
		}
		return nil
	})
	return strings.Join(seen, ", "), err
}

// initialized says what node still lacks.
func initialized(node *corev1.Node, server machine, region string) error {
	var errs []error
	want := func(what, got, want string) {
		if got != want {
			errs = append(errs, fmt.Errorf("node %s: %s is %q, want %q", node.Name, what, got, want))
		}
	}
	want("provider ID", node.Spec.ProviderID, server.providerID)
	want("zone", node.Labels[corev1.LabelTopologyZone], server.zone)
	want("region", node.Labels[corev1.LabelTopologyRegion], region)
	if node.Labels[corev1.LabelInstanceTypeStable] == "" {
		errs = append(errs, fmt.Errorf("node %s has no instance type", node.Name))
	}
	if internalIP(node) == "" {
		errs = append(errs, fmt.Errorf("node %s has no InternalIP", node.Name))
	}
	if hasTaint(node, taintUninitialized) {
		errs = append(errs, fmt.Errorf("node %s still has the taint %s", node.Name, taintUninitialized))
	}
	return errors.Join(errs...)
}

// internalIP is the first, "" where there is none.
func internalIP(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// setReady sets the Node's Ready condition, as the kubelet (True) and the node controller
// of kube-controller-manager (Unknown, once the kubelet is silent) do.
func (w *world) setReady(ctx context.Context, name string, status corev1.ConditionStatus) error {
	node, err := w.cluster.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.NewTime(time.Now())
	conditions := slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	node.Status.Conditions = append(conditions, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: "Quickstart", LastHeartbeatTime: now, LastTransitionTime: now,
	})
	_, err = w.cluster.Client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) { // the controller manager writes at the same time
		return w.setReady(ctx, name, status)
	}
	return err
}

// shutdownNoticed powers a server off behind the cluster's back.
func (w *world) shutdownNoticed(ctx context.Context) (string, error) {
	server := w.scene.machines[1]
	if err := w.scene.stop(ctx, server); err != nil {
		return "", err
	}
	if err := w.setReady(ctx, server.name, corev1.ConditionUnknown); err != nil {
		return "", err
	}
	err := eventually(ctx, func(ctx context.Context) error {
		node, err := w.cluster.Client.CoreV1().Nodes().Get(ctx, server.name, metav1.GetOptions{})
		if err == nil && !hasTaint(node, taintShutdown) {
			err = fmt.Errorf("node %s has no taint %s", server.name, taintShutdown)
		}
		return err
	})
	return server.name + " has the taint " + taintShutdown, err
}

// deletionNoticed deletes a server behind the cluster's back.
func (w *world) deletionNoticed(ctx context.Context) (string, error) {
	server := w.scene.machines[2]
	if err := w.scene.remove(ctx, server); err != nil {
		return "", err
	}
	if err := w.setReady(ctx, server.name, corev1.ConditionUnknown); err != nil {
		return "", err
	}
	err := eventually(ctx, func(ctx context.Context) error {
		_, err := w.cluster.Client.CoreV1().Nodes().Get(ctx, server.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("node %s is still there", server.name)
	})
	return "Node " + server.name + " is gone", err
}
