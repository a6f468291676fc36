//go:build e2e

package kubelet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

const (
	nodeName     = "node"
	sandboxImage = "isthmus.test/pause:1"
	kubeletURL   = "https://127.0.0.1:10250"
	socket       = state + "/containerd.sock"
)

// node is a running node.
type node struct {
	kubelet *process
	client  *http.Client // of the kubelet's API
	token   string       // for it
}

// startContainerd starts Debian's containerd, which trusts the registries' CA.
func startContainerd(t *testing.T, ca *authority, registries ...string) {
	t.Helper()
	for _, host := range registries {
		write(t, "certs.d/"+host+"/hosts.toml", fmt.Sprintf("server = \"https://%s\"\n[host.\"https://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = %q\n", host, host, ca.caFile))
	}
	config := write(t, "containerd.toml", fmt.Sprintf(`version = 2
root = "%[1]s/containerd"
state = "%[1]s/containerd-run"
[debug]
  level = "warn"
[grpc]
  address = %[2]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[3]q
  restrict_oom_score_adj = true # this machine may not let us protect anything
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%[1]s/certs.d"
`, state, socket, sandboxImage))
	containerd := start(t, "containerd", "containerd", "--config", config)
	containerd.ready(t, func() error { _, err := run(t, "ctr", "--address", socket, "version"); return err })
	load(t, sandboxImage, makeImage(t, sandboxImage))
}

// load puts an image into containerd, which then needs no registry for it.
func load(t *testing.T, reference string, image v1.Image) {
	t.Helper()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(state, "image.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", archive); err != nil {
		t.Fatal(err)
	}
}

// kubeletArgs writes a kubelet's configuration and returns its arguments, with those about
// credential providers if there are any.
func kubeletArgs(t *testing.T, plane *controlplane.ControlPlane, root, providers, binDir string) []string {
	t.Helper()
	user, err := plane.UserConfig("system:node:"+nodeName, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := write(t, root+"/kubeconfig", "")
	if err := controlplane.WriteKubeconfig(kubeconfig, user); err != nil {
		t.Fatal(err)
	}
	config := write(t, root+"/config.yaml", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
authorization: {mode: Webhook}
address: 127.0.0.1
healthzPort: 0
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: %s
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
podLogsDir: %[3]s/pods
volumePluginDir: %[3]s/volume-plugins
`, socket, cgroup, filepath.Join(state, root)))
	args := []string{
		"--config=" + config, "--kubeconfig=" + kubeconfig, "--root-dir=" + filepath.Join(state, root, "lib"), "--cert-dir=" + filepath.Join(state, root, "pki"),
		"--hostname-override=" + nodeName, "--node-ip=" + nodeIP, "--v=2",
	}
	if providers != "" {
		args = append(args, "--image-credential-provider-config="+providers, "--image-credential-provider-bin-dir="+binDir)
	}
	return args
}

// installProviders writes a CredentialProviderConfig and a folder with our program under each
// provider's name, as links, since the kubelet wants every name only once.
func installProviders(t *testing.T, root string, providers []kubeletv1.CredentialProvider) (config, binDir string) {
	t.Helper()
	data, err := json.Marshal(kubeletv1.CredentialProviderConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: "kubelet.config.k8s.io/v1", Kind: "CredentialProviderConfig"}, Providers: providers,
	})
	if err != nil {
		t.Fatal(err)
	}
	config = write(t, root+"/credential-providers.yaml", string(data))
	binDir = filepath.Join(state, root, "bin")
	if err := os.MkdirAll(binDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		if err := os.Symlink(program("isthmus-credential-provider"), filepath.Join(binDir, p.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return config, binDir
}

// startNode starts the node's kubelet, with credential providers if there are any. name is for its log.
func startNode(t *testing.T, plane *controlplane.ControlPlane, name, providers, binDir string) *node {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the kubelet has a certificate of its own making
	t.Cleanup(transport.CloseIdleConnections)
	n := &node{client: &http.Client{Transport: transport}, token: monitorToken(t, plane, name)}
	n.kubelet = start(t, name, "kubelet", kubeletArgs(t, plane, "kubelet", providers, binDir)...)
	n.kubelet.ready(t, func() error {
		if _, err := n.get(t.Context(), "/healthz"); err != nil {
			return err
		}
		_, err := plane.Client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		return err
	})
	return n
}

// monitorToken is the token of a service account that may read the kubelet's metrics.
func monitorToken(t *testing.T, plane *controlplane.ControlPlane, name string) string {
	t.Helper()
	addAccount(t, plane.Client, name, nil)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	if _, err := plane.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := plane.ServiceAccountConfig(t.Context(), namespace, name, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return config.BearerToken
}

func (n *node) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, kubeletURL+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+n.token)
	resp, err := n.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// sample is the value of one of the kubelet's metrics for a provider, 0 if it is not there.
func (n *node) sample(t *testing.T, metric, provider string) int {
	t.Helper()
	text, err := n.get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + metric + `\{plugin_name="` + provider + `"\} (\d+)$`).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	value, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// runs and failures are how often the kubelet ran a provider and in how many of them it failed.
func (n *node) runs(t *testing.T, provider string) int {
	return n.sample(t, "kubelet_credential_provider_plugin_duration_count", provider)
}

func (n *node) failures(t *testing.T, provider string) int {
	return n.sample(t, "kubelet_credential_provider_plugin_errors_total", provider)
}

// record begins every record of the kubelet's log; one with an error of several lines has several.
var record = regexp.MustCompile(`(?m)^[IWEF]\d{4} `)

// complaints are the records of the kubelet's log about a provider that failed.
func (n *node) complaints(t *testing.T, provider string) (found []string) {
	t.Helper()
	log := n.kubelet.output(t)
	begins := append(record.FindAllStringIndex(log, -1), []int{len(log)})
	for i, begin := range begins[:len(begins)-1] {
		text := log[begin[0]:begins[i+1][0]]
		if strings.Contains(text, "Failed to provide credentials for image") && strings.Contains(text, fmt.Sprintf("provider=%q", provider)) {
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found
}
