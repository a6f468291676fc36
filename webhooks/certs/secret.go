package certs

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/webhooks/watched"
)

// secretWatch follows one Secret.
type secretWatch struct{ *watched.Object }

func watchSecret(client kubernetes.Interface, name types.NamespacedName) secretWatch {
	return secretWatch{watched.New(watched.Target{Client: client.CoreV1().RESTClient(), Resource: "secrets", Name: name, Empty: &corev1.Secret{}}, func(err error) error {
		return fmt.Errorf("read the Secret: %w%s", err, nextStep(err))
	})}
}

// quiet returns ctx for requests that carry private keys: client-go logs their content at V(8).
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, klog.Logger{}) }

// get returns the Secret; nil when there is none. It fails while it is not known.
func (w secretWatch) get() (*corev1.Secret, error) {
	obj, err := w.Get()
	secret, _ := obj.(*corev1.Secret)
	return secret, err
}

// nextStep says what to do about an error of the API server.
func nextStep(err error) string {
	switch {
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "; apply the RBAC of --webhook-cert-source: see docs/guides/webhook-certificates.md"
	case apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces"):
		return "; create the namespace, or name another with --webhook-cert-secret"
	}
	return ""
}
