//go:build e2e

package kubelet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const namespace = "default"

// addAccount makes a service account.
func addAccount(t *testing.T, client kubernetes.Interface, name string, annotations map[string]string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createPod makes a pod of one container, on the node. It uses the node's network: networks of
// pods are none of our matter.
func createPod(t *testing.T, client kubernetes.Interface, name, account, image string) {
	t.Helper()
	no, grace := false, int64(0)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: nodeName, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever, DNSPolicy: corev1.DNSDefault,
			ServiceAccountName: account, AutomountServiceAccountToken: &no, EnableServiceLinks: &no, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "app", Image: image, ImagePullPolicy: corev1.PullAlways}},
		},
	}
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete pod %s: %v", name, err)
		}
	})
}

// waitPod waits until done says so of the pod's one container.
func waitPod(t *testing.T, client kubernetes.Interface, name, what string, done func(corev1.ContainerStatus) bool) {
	t.Helper()
	last := "nothing is known of its container"
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 90*time.Second, true, func(ctx context.Context) (bool, error) {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return false, err
		}
		status := pod.Status.ContainerStatuses[0]
		last = fmt.Sprintf("%+v", status.State)
		if w := status.State.Waiting; w != nil {
			last = w.Reason + ": " + w.Message
		}
		return done(status), nil
	})
	if err != nil {
		t.Fatalf("pod %s: want %s: %v; %s; events: %s", name, what, err, last, strings.Join(events(t, client, name), " | "))
	}
}

// waitRunning waits until the pod's container runs.
func waitRunning(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	waitPod(t, client, name, "that it runs", func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

// waitPullFailed waits until the pod's image could not be pulled, and returns what `kubectl describe pod` shows of it.
func waitPullFailed(t *testing.T, client kubernetes.Interface, name string) (message string) {
	t.Helper()
	waitPod(t, client, name, "ErrImagePull", func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && (s.State.Waiting.Reason == "ErrImagePull" || s.State.Waiting.Reason == "ImagePullBackOff")
	})
	var found []string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		found = nil
		for _, e := range events(t, client, name) {
			if strings.HasPrefix(e, "Failed: Failed to pull image") {
				found = append(found, e)
			}
		}
		return len(found) > 0, nil
	})
	if err != nil {
		t.Fatalf("pod %s has no event about the failed pull: %v", name, events(t, client, name))
	}
	return found[0]
}

// events are the events of a pod, as "reason: message".
func events(t *testing.T, client kubernetes.Interface, pod string) (lines []string) {
	t.Helper()
	list, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		lines = append(lines, e.Reason+": "+e.Message)
	}
	return lines
}
