// Package manifests holds what is applied to a cluster to run Isthmus: a kustomize base,
// components and overlays. The tests and the quickstart take it from here, so that they
// run with exactly what ships.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

// Where the cloud controller manager runs, and as whom.
const (
	Namespace      = "kube-system"
	ServiceAccount = "isthmus-cloud-controller-manager"
)

//go:embed base components overlays examples
var files embed.FS

// FS returns all manifests under their paths in this folder.
func FS() fs.FS { return files }

// RBAC returns the ServiceAccount with its roles and bindings as YAML documents.
func RBAC() ([]byte, error) { return fs.ReadFile(files, "base/rbac.yaml") }

// MutatingWebhookConfiguration returns the webhook configuration as it ships, but with the
// webhooks called at baseURL (https://host:port) instead of through their Service, as a
// control plane outside of the cluster's network has to.
func MutatingWebhookConfiguration(baseURL string, caBundle []byte) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	const name = "components/webhook/mutatingwebhookconfiguration.yaml"
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	cfg := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(data, cfg); err != nil {
		return nil, fmt.Errorf("decode %s: %w", name, err)
	}
	for i := range cfg.Webhooks {
		client := &cfg.Webhooks[i].ClientConfig
		if client.Service == nil || client.Service.Path == nil {
			return nil, fmt.Errorf("decode %s: webhook %s names no path", name, cfg.Webhooks[i].Name)
		}
		url := baseURL + *client.Service.Path
		*client = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: caBundle}
	}
	return cfg, nil
}
