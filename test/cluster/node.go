package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where things are on a node.
const (
	// providersConfig and providersBin are the kubelet's --image-credential-provider-config and -bin-dir, where the
	// package has them.
	providersConfig = "/etc/isthmus/credential-provider/credential-provider.yaml"
	providersBin    = "/opt/isthmus/credential-providers"

	containerd   = "/run/containerd/containerd.sock"
	sandboxImage = "isthmus.test/pause:1"
)

// writeNode puts the configuration of containerd, kubelet and kube-proxy onto a machine.
func (c *Cluster) writeNode(m *Machine) error {
	if err := errors.Join(
		c.writeKubeconfig(m, "/etc/kubernetes/kubelet.conf", "system:node:"+m.Name, "system:nodes"),
		c.writeKubeconfig(m, "/etc/kubernetes/kube-proxy.conf", "system:kube-proxy"),
	); err != nil {
		return err
	}
	registry := c.Registry.Host
	for file, content := range map[string]string{
		pki + "ca.crt":                                        string(c.ca.pem),
		"/etc/containerd/config.toml":                         fmt.Sprintf(containerdConfig, containerd, sandboxImage, filepath.Join(c.env.bin, "cni")),
		"/etc/containerd/cni.template":                        cniTemplate,
		"/etc/containerd/certs.d/" + registry + "/hosts.toml": fmt.Sprintf("server = \"https://%[1]s\"\n[host.\"https://%[1]s\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = %[2]q\n", registry, pki+"ca.crt"),
		"/var/lib/kubelet/config.yaml":                        fmt.Sprintf(kubeletConfig, pki, containerd, m.cgroup()),
		"/var/lib/kube-proxy/config.yaml":                     fmt.Sprintf(proxyConfig, podCIDR, m.Name),
	} {
		if err := m.Write(file, content); err != nil {
			return err
		}
	}
	return nil
}

const containerdConfig = `version = 2
[debug]
  level = "warn"
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true # this machine may not let us protect anything
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = "/etc/cni/net.d"
    conf_template = "/etc/containerd/cni.template"
`

// cniTemplate becomes a configuration when the kubelet learns the Node's pod CIDR: until the cloud
// controller manager has given it one, the Node has no network for pods.
const cniTemplate = `{
  "cniVersion": "0.3.1", "name": "pods",
  "plugins": [
    {"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true, "ipMasq": false,
     "ipam": {"type": "host-local", "ranges": [{{range $i, $r := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$r}}"}]{{end}}], "routes": [{"dst": "0.0.0.0/0"}]}}
  ]
}
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[1]sca.crt}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://%[2]s
cgroupDriver: cgroupfs
cgroupRoot: %[3]s
failCgroupV1: false # whichever this machine has
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
localStorageCapacityIsolation: false
evictionHard: {memory.available: 1Mi}
imageGCHighThresholdPercent: 100
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
nodeStatusUpdateFrequency: 4s
staticPodPath: /etc/kubernetes/manifests
volumePluginDir: /var/lib/kubelet/volume-plugins
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: /etc/kubernetes/kube-proxy.conf}
clusterCIDR: %s
hostnameOverride: %s
bindAddress: 0.0.0.0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s} # the kernel's, not a namespace's to change
nftables: {syncPeriod: 30s, minSyncPeriod: 100ms}
`

// cgroup is the machine's own, which all its pods are in.
func (m *Machine) cgroup() string { return "/isthmus-e2e/" + m.Name }

// makeCgroups makes the machine's cgroup, in version 2 or in each hierarchy of version 1.
func (m *Machine) makeCgroups() error {
	const two = "/sys/fs/cgroup/isthmus-e2e/"
	if controllers, err := os.ReadFile(two + "cgroup.controllers"); err == nil {
		// The machines' cgroups get the controllers that this one has.
		var errs []error
		for _, name := range strings.Fields(string(controllers)) {
			errs = append(errs, os.WriteFile(two+"cgroup.subtree_control", []byte("+"+name), 0o644))
		}
		return errors.Join(append(errs, os.MkdirAll("/sys/fs/cgroup"+m.cgroup(), 0o755))...)
	}
	roots, err := filepath.Glob("/sys/fs/cgroup/*/isthmus-e2e")
	for _, root := range roots {
		err = errors.Join(err, os.MkdirAll(filepath.Join(root, m.Name), 0o755))
	}
	return err
}

// startNode starts containerd, kube-proxy and the kubelet.
func (c *Cluster) startNode(ctx context.Context, m *Machine) error {
	if err := m.makeCgroups(); err != nil {
		return fmt.Errorf("cgroup of %s: %w", m.Name, err)
	}
	if err := m.Start(ctx, "containerd", "--config=/etc/containerd/config.toml"); err != nil {
		return err
	}
	err := poll(ctx, time.Minute, func(ctx context.Context) error {
		_, err := m.Run(ctx, "ctr", "--address", containerd, "version")
		return err
	})
	if err != nil {
		return fmt.Errorf("containerd is not ready %w: see %s", err, c.Logs())
	}
	if _, err := m.Run(ctx, "ctr", "--address", containerd, "--namespace", "k8s.io", "images", "import", c.Registry.pause); err != nil {
		return err
	}
	if err := m.Start(ctx, "kube-proxy", "--config=/var/lib/kube-proxy/config.yaml"); err != nil {
		return err
	}
	args := []string{
		"--config=/var/lib/kubelet/config.yaml", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--cert-dir=/var/lib/kubelet/pki", "--cloud-provider=external",
		"--hostname-override=" + m.Name, "--node-ip=" + m.Address.String(), "--v=2",
		"--image-credential-provider-config=" + providersConfig, "--image-credential-provider-bin-dir=" + providersBin,
	}
	if m == c.Machines[0] {
		args = append(args, "--register-with-taints=node-role.kubernetes.io/control-plane=:NoSchedule")
	}
	return m.Start(ctx, "kubelet", args...)
}

// labelControlPlane gives the control plane's Node the label that a kubelet may not give itself, as kubeadm does.
func (c *Cluster) labelControlPlane(ctx context.Context) error {
	return poll(ctx, 2*time.Minute, func(ctx context.Context) error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, c.Machines[0].Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Labels["node-role.kubernetes.io/control-plane"] = ""
		_, err = c.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// Ready is nil if the Node is Ready and has none of the taints that a cloud controller manager takes away.
func (c *Cluster) Ready(ctx context.Context, node string) error {
	n, err := c.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, taint := range n.Spec.Taints {
		if taint.Key != "node-role.kubernetes.io/control-plane" {
			return fmt.Errorf("node %s has the taint %s", node, taint.Key)
		}
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue || condition.Type == corev1.NodeNetworkUnavailable && condition.Status != corev1.ConditionFalse {
			return fmt.Errorf("node %s: %s is %s: %s", node, condition.Type, condition.Status, condition.Message)
		}
	}
	return nil
}
