// Package manifests holds what is applied to a cluster to run Isthmus: a kustomize base,
// components and overlays. The tests and the quickstart take it from here, so that they
// run with exactly what ships.
package manifests

import (
	"embed"
	"encoding/json"
	"io/fs"
)

// Where the cloud controller manager runs, and as whom.
const (
	Namespace      = "kube-system"
	ServiceAccount = "isthmus-cloud-controller-manager"
	// WebhookServiceAccount is that of the Deployment that serves webhooks only.
	WebhookServiceAccount = "isthmus-cloud-webhook-manager"
	// StatusReader is the ServiceAccount, and the ClusterRole, of who may read the pages of the secure port and nothing else.
	StatusReader = "isthmus-status-reader"
	// Pods selects the pods of the cloud controller manager by the labels that they have here and in the chart.
	Pods = "app.kubernetes.io/name=isthmus,app.kubernetes.io/component=cloud-controller-manager"
)

//go:embed base webhook-manager credential-provider components overlays examples monitoring
var files embed.FS

// FS returns all manifests under their paths in this folder.
func FS() fs.FS { return files }

// RBAC returns the ServiceAccount with its roles and bindings as YAML documents.
func RBAC() ([]byte, error) { return fs.ReadFile(files, "base/rbac.yaml") }

// SelfManagedRBAC returns what else --webhook-cert-source=self-managed takes, as YAML documents.
func SelfManagedRBAC() ([]byte, error) {
	return fs.ReadFile(files, "components/webhook-self-managed/rbac.yaml")
}

// CertManagerRBAC returns what else --webhook-cert-source=cert-manager takes, as YAML documents.
func CertManagerRBAC() ([]byte, error) {
	return fs.ReadFile(files, "components/webhook-cert-manager/rbac.yaml")
}

// CertManagerPolicy returns the policy that says what the objects of CertManagerRBAC may be, as YAML documents.
func CertManagerPolicy() ([]byte, error) {
	return fs.ReadFile(files, "components/webhook-cert-manager/policy.yaml")
}

// RegistrationRBAC returns what else it takes to register webhooks (--webhook-registration=auto
// and remove), as YAML documents.
func RegistrationRBAC() ([]byte, error) {
	return fs.ReadFile(files, "components/webhook-auto/rbac.yaml")
}

// IAMActions returns what the IAM policy for AWS allows, such as "ec2:DescribeInstances".
func IAMActions() ([]string, error) { return iamActions("overlays/aws/iam-policy.json") }

// IAMTaggingActions returns what AWS' policy for the tagging controller allows beside.
func IAMTaggingActions() ([]string, error) { return iamActions("overlays/aws/iam-policy-tagging.json") }

// IAMWebhookActions returns what the IAM policy for AWS allows a process that serves webhooks alone.
func IAMWebhookActions() ([]string, error) {
	return iamActions("overlays/aws-webhooks/iam-policy.json")
}

func iamActions(file string) ([]string, error) {
	data, err := fs.ReadFile(files, file)
	if err != nil {
		return nil, err
	}
	var policy struct{ Statement []struct{ Action []string } }
	if err := json.Unmarshal(data, &policy); err != nil {
		return nil, err
	}
	var actions []string
	for _, s := range policy.Statement {
		actions = append(actions, s.Action...)
	}
	return actions, nil
}
