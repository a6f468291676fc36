package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// What is installed, and as what.
const (
	Namespace = "isthmus-system"
	Release   = "isthmus"
	// Manager is the image of the cloud controller manager, as `make images` names it.
	Manager = "cloud-controller-manager"
	tag     = "e2e"
)

// PushManager pushes the image that `make images` has built, for this architecture, and returns its digest.
func (c *Cluster) PushManager(ctx context.Context) (string, error) {
	path := filepath.Join(c.env.root, "bin/images", Manager)
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return "", fmt.Errorf("no image in %s: run `make images`: %w", path, err)
	}
	image, err := ours(index)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if _, err := c.Registry.Push(ctx, Manager+":"+tag, image); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	return digest.String(), err
}

// ours is the image for this architecture in an index of images or of indices.
func ours(index v1.ImageIndex) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.MediaType.IsIndex() {
			inner, err := index.ImageIndex(m.Digest)
			if err != nil {
				return nil, err
			}
			return ours(inner)
		}
		if m.Platform == nil || m.Platform.Architecture == runtime.GOARCH {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("there is no image for %s", runtime.GOARCH)
}

// Values are the chart's values for this cluster: the DaemonSet's place is taken by two pods that may be on any
// machine, so that one of them is there when the other is not.
func (c *Cluster) Values() string {
	conf := strings.Replace(c.Cloud.CloudConf(), "[LoadBalancer]\n", "[LoadBalancer]\ncreate-monitor = true\nmonitor-delay = 1s\nmonitor-timeout = 1s\n", 1)
	conf = strings.ReplaceAll(strings.TrimSpace(conf), "\n", "\n      ")
	return fmt.Sprintf(`image: {registry: %q, tag: %s}
cloud:
  provider: openstack
  config:
    content: |
      %s
controller:
  kind: Deployment
  controllers: ["*", node-ipam-controller]
  replicas: 2
  affinity: null
  extraArgs: [--cluster-cidr=%s, --allocate-node-cidrs=true, --configure-cloud-routes=true, --node-monitor-period=1s, --route-reconciliation-period=2s]
  resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 512Mi}}
`, c.Registry.Host, tag, conf, podCIDR)
}

// Helm runs helm with the release's namespace.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	return c.env.output(ctx, nil, "helm", append([]string{"--kubeconfig=" + c.Kubeconfig, "--namespace=" + Namespace}, args...)...)
}

// Install installs the chart, or upgrades it, with Values and those of set, like image.tag=x.
func (c *Cluster) Install(ctx context.Context, set ...string) error {
	values := filepath.Join(c.env.dir, "values.yaml")
	if err := os.WriteFile(values, []byte(c.Values()), 0o600); err != nil {
		return err
	}
	args := []string{"upgrade", "--install", "--create-namespace", Release, filepath.Join(c.env.root, "charts/isthmus"), "--values=" + values, "--wait", "--timeout=3m"}
	for _, s := range set {
		args = append(args, "--set="+s)
	}
	_, err := c.Helm(ctx, args...)
	return err
}
