package manifests_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// webhookFlags are the flags of everything about webhooks, and a check of their values.
func webhookFlags() (fs *pflag.FlagSet, validate func() error) {
	o, c, s, r := server.NewOptions(), certs.NewOptions(), webhooks.DefaultService(), registration.NewOptions()
	fs = pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(fs)
	c.AddFlags(fs)
	s.AddFlags(fs)
	r.AddFlags(fs)
	return fs, func() error { return errors.Join(o.Validate(), c.Validate(), s.Validate(), r.Validate(nil)) }
}

// access is one thing to try.
type access struct {
	verb, group, resource, sub, namespace, name string
}

func (a access) String() string {
	return fmt.Sprintf("%s %s %s/%s %s/%s", a.verb, a.group, a.resource, a.sub, a.namespace, a.name)
}

const (
	coordination = "coordination.k8s.io"
	admission    = "admissionregistration.k8s.io"
)

// mustToRegister is what webhook-auto allows.
var mustToRegister = registering("mutatingwebhookconfigurations", "validatingwebhookconfigurations")

func registering(resources ...string) []access {
	out := []access{{verb: "create", resource: "events", namespace: "default"}, {verb: "patch", resource: "events", namespace: "default", name: "e"},
		{verb: "list", group: "discovery.k8s.io", resource: "endpointslices", namespace: "kube-system"},
		{verb: "create", group: coordination, resource: "leases", namespace: "kube-system"},
		{verb: "get", group: coordination, resource: "leases", namespace: "kube-system", name: "isthmus-webhook-registration"},
		{verb: "update", group: coordination, resource: "leases", namespace: "kube-system", name: "isthmus-webhook-registration"}}
	for _, r := range resources {
		for _, verb := range []string{"create", "get", "list", "watch", "patch", "update", "delete"} {
			out = append(out, access{verb: verb, group: admission, resource: r, name: "isthmus"})
		}
	}
	return out
}

// mustToServe is what a process needs that only serves webhooks, and mustNotToServe what the
// controllers may in its stead.
var (
	mustToServe = []access{
		{verb: "get", resource: "namespaces", namespace: "kube-system", name: "kube-system"},
		{verb: "create", group: "authentication.k8s.io", resource: "tokenreviews"},
		{verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews"},
		{verb: "list", group: "storage.k8s.io", resource: "csinodes"}, {verb: "watch", group: "storage.k8s.io", resource: "csinodes"},
	}
	mustNotToServe = []access{
		{verb: "list", resource: "nodes"}, {verb: "delete", resource: "nodes", name: "n"}, {verb: "patch", resource: "nodes", sub: "status", name: "n"},
		{verb: "list", resource: "services"}, {verb: "patch", resource: "services", sub: "status", namespace: "default", name: "s"},
		{verb: "create", resource: "events", namespace: "kube-system"},
		{verb: "get", group: coordination, resource: "leases", namespace: "kube-system", name: "cloud-controller-manager"},
		{verb: "list", resource: "persistentvolumes"}, {verb: "watch", resource: "persistentvolumes"}, {verb: "patch", resource: "persistentvolumes", name: "pv"},
		{verb: "list", group: "storage.k8s.io", resource: "volumeattachments"},
		{verb: "update", group: coordination, resource: "leases", namespace: "kube-system", name: "cloud-controller-manager"},
	}
)

// must is what the framework's controllers, leader election and the secure port call.
var must = []access{
	{verb: "get", resource: "nodes", name: "n"}, {verb: "list", resource: "nodes"}, {verb: "watch", resource: "nodes"},
	{verb: "update", resource: "nodes", name: "n"}, {verb: "patch", resource: "nodes", name: "n"}, {verb: "delete", resource: "nodes", name: "n"},
	{verb: "patch", resource: "nodes", sub: "status", name: "n"},
	{verb: "list", resource: "services"}, {verb: "watch", resource: "services"},
	{verb: "patch", resource: "services", sub: "status", namespace: "default", name: "s"},
	{verb: "create", resource: "events", namespace: "default"}, {verb: "patch", resource: "events", namespace: "default", name: "e"},
	{verb: "list", resource: "persistentvolumes"}, {verb: "watch", resource: "persistentvolumes"}, {verb: "patch", resource: "persistentvolumes", name: "pv"},
	{verb: "list", group: "storage.k8s.io", resource: "volumeattachments"},
	{verb: "list", group: "storage.k8s.io", resource: "csinodes"}, {verb: "watch", group: "storage.k8s.io", resource: "csinodes"},
	{verb: "create", group: coordination, resource: "leases", namespace: "kube-system"},
	{verb: "get", group: coordination, resource: "leases", namespace: "kube-system", name: "cloud-controller-manager"},
	{verb: "update", group: coordination, resource: "leases", namespace: "kube-system", name: "cloud-controller-manager"},
	{verb: "update", group: coordination, resource: "leases", namespace: "kube-system", name: "cloud-provider-extraction-migration"},
	{verb: "get", resource: "namespaces", namespace: "kube-system", name: "kube-system"},
	{verb: "create", group: "authentication.k8s.io", resource: "tokenreviews"},
	{verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews"},
}

// mustNot is what an attacker would like, and what other cloud controller managers may.
var mustNot = []access{
	{verb: "*", group: "*", resource: "*"},
	{verb: "get", resource: "secrets", namespace: "kube-system", name: "isthmus-cloud-config"},
	{verb: "list", resource: "secrets"}, {verb: "list", resource: "secrets", namespace: "kube-system"},
	{verb: "get", resource: "configmaps", namespace: "kube-system", name: "extension-apiserver-authentication"},
	{verb: "list", resource: "configmaps", namespace: "kube-system"}, {verb: "get", resource: "configmaps", namespace: "kube-system", name: "kubeadm-config"},
	{verb: "create", resource: "pods", namespace: "kube-system"}, {verb: "list", resource: "pods"},
	{verb: "create", resource: "pods", sub: "exec", namespace: "kube-system", name: "p"},
	{verb: "get", resource: "nodes", sub: "proxy", name: "n"}, {verb: "create", resource: "nodes"}, {verb: "deletecollection", resource: "nodes"},
	{verb: "create", resource: "services", namespace: "default"}, {verb: "delete", resource: "services", namespace: "default", name: "s"},
	{verb: "patch", resource: "services", namespace: "default", name: "s"}, {verb: "update", resource: "services", namespace: "default", name: "s"},
	{verb: "create", resource: "serviceaccounts", sub: "token", namespace: "kube-system", name: "default"},
	{verb: "create", resource: "serviceaccounts", namespace: "kube-system"},
	{verb: "impersonate", resource: "serviceaccounts", namespace: "kube-system", name: "default"}, {verb: "impersonate", resource: "users", name: "admin"},
	{verb: "create", resource: "persistentvolumes"}, {verb: "update", resource: "persistentvolumes", name: "pv"},
	{verb: "delete", resource: "persistentvolumes", name: "pv"}, {verb: "patch", resource: "persistentvolumes", sub: "status", name: "pv"},
	{verb: "list", resource: "namespaces"}, {verb: "get", resource: "namespaces", namespace: "default", name: "default"},
	{verb: "get", group: coordination, resource: "leases", namespace: "kube-system", name: "kube-controller-manager"},
	{verb: "update", group: coordination, resource: "leases", namespace: "kube-node-lease", name: "n"},
	{verb: "create", group: coordination, resource: "leases", namespace: "default"},
	{verb: "delete", group: coordination, resource: "leases", namespace: "kube-system", name: "cloud-controller-manager"},
	{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterrolebindings"},
	{verb: "update", group: "rbac.authorization.k8s.io", resource: "clusterroles", name: "isthmus-cloud-controller-manager"},
	{verb: "create", group: admission, resource: "mutatingwebhookconfigurations"},
	{verb: "create", group: admission, resource: "mutatingwebhookconfigurations", name: "other"},
	{verb: "list", group: admission, resource: "validatingwebhookconfigurations"},
	{verb: "patch", group: admission, resource: "validatingwebhookconfigurations", name: "other"},
	{verb: "delete", group: admission, resource: "mutatingwebhookconfigurations", name: "other"},
	{verb: "create", group: admission, resource: "validatingadmissionpolicies", name: "isthmus"},
	{verb: "delete", group: coordination, resource: "leases", namespace: "kube-system", name: "isthmus-webhook-registration"},
	{verb: "list", group: "discovery.k8s.io", resource: "endpointslices", namespace: "default"}, {verb: "create", group: "discovery.k8s.io", resource: "endpointslices", namespace: "kube-system"},
	{verb: "update", group: "apps", resource: "daemonsets", namespace: "kube-system", name: "isthmus-cloud-controller-manager"},
}

// testAccess asks the API server's authorizer about both lists.
func testAccess(t *testing.T, sa client.Client, must, mustNot []access) {
	t.Helper()
	ask := func(a access, want bool) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: a.verb, Group: a.group, Resource: a.resource, Subresource: a.sub, Namespace: a.namespace, Name: a.name,
			},
		}}
		if err := sa.Create(t.Context(), review); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		if review.Status.Allowed != want {
			t.Errorf("%s: allowed %v, want %v (%s)", a, review.Status.Allowed, want, review.Status.Reason)
		}
	}
	for _, a := range must {
		ask(a, true)
	}
	for _, a := range mustNot {
		ask(a, false)
	}
}
