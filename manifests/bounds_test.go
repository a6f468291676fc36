package manifests_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// TestMemory: each container has a limit, and Go knows it and stays below.
func TestMemory(t *testing.T) {
	for _, dir := range append([]string{"base", "webhook-manager", "credential-provider"}, overlays...) {
		for _, c := range workload(t, build(t, dir)).Spec.Containers {
			limit := c.Resources.Limits.Memory().Value()
			i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
			if limit == 0 || i < 0 {
				t.Errorf("%s: %s has a limit of %d bytes, environment %v", dir, c.Name, limit, c.Env)
				continue
			}
			mib, err := strconv.ParseInt(strings.TrimSuffix(c.Env[i].Value, "MiB"), 10, 64)
			if share := 100 * (mib << 20) / limit; err != nil || share < 85 || share > 92 {
				t.Errorf("%s: %s has GOMEMLIMIT %s (%v), %d %% of its limit", dir, c.Name, c.Env[i].Value, err, share)
			}
		}
	}
}

// TestWhoMayAsk: the components that keep others away from the webhooks fit those that serve them.
func TestWhoMayAsk(t *testing.T) {
	for _, overlay := range overlays {
		pod := workload(t, build(t, overlay, "webhook-client-ca"))
		c := pod.Spec.Containers[0]
		mount, volume := c.VolumeMounts[len(c.VolumeMounts)-1], pod.Spec.Volumes[len(pod.Spec.Volumes)-1]
		if !slices.Contains(c.Args, "--webhook-client-ca-file="+mount.MountPath+"/ca.crt") || mount.Name != volume.Name || volume.ConfigMap == nil {
			t.Errorf("%s: %v, %v, %v", overlay, c.Args, mount, volume)
		}
	}
	objects := build(t, overlays[1], "webhook-network-policy")
	pod, policy := workload(t, objects), find[*networkingv1.NetworkPolicy](t, objects)
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil || !selector.Matches(labels.Set(pod.Labels)) || pod.Spec.HostNetwork {
		t.Errorf("the policy is for %v (%v), the pods have %v, and are on the host's network: %v", selector, err, pod.Labels, pod.Spec.HostNetwork)
	}
	open := map[int]int{} // how many may come, by port
	for _, rule := range policy.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.IntValue()] = len(rule.From)
		}
	}
	if len(open) != len(pod.Spec.Containers[0].Ports) || open[server.DefaultPort] == 0 {
		t.Errorf("ports %v are open, the pods have %v", open, pod.Spec.Containers[0].Ports)
	}
}
