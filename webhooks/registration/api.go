package registration

import (
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/watched"
)

// api reads and writes the configuration of one kind. Errors name the operation and the object.
type api interface {
	// get returns nil when there is none.
	get(ctx context.Context) (*configuration, error)
	create(ctx context.Context, c *configuration) (*configuration, error)
	// update, and remove, do nothing but fail with a conflict when somebody has changed it.
	update(ctx context.Context, c *configuration) (*configuration, error)
	remove(ctx context.Context, c *configuration) error
}

// apiOf returns the API of kind t, and what follows our configuration there.
func apiOf(client kubernetes.Interface, t webhooks.Type) (api, *watched.Object) {
	c := client.AdmissionregistrationV1()
	follow := func(resource string, empty runtime.Object) *watched.Object {
		return watched.New(c.RESTClient(), resource, types.NamespacedName{Name: Name}, empty, func(err error) error { return explain("watch", kindName(t), err) })
	}
	if t == webhooks.Validating {
		return typed[admissionregistrationv1.ValidatingWebhookConfiguration]{t, c.ValidatingWebhookConfigurations()},
			follow("validatingwebhookconfigurations", &admissionregistrationv1.ValidatingWebhookConfiguration{})
	}
	return typed[configuration]{t, c.MutatingWebhookConfigurations()}, follow("mutatingwebhookconfigurations", &configuration{})
}

// typed is the api of the kind that T is.
type typed[T any] struct {
	kind   webhooks.Type
	client interface {
		Get(ctx context.Context, name string, o metav1.GetOptions) (*T, error)
		Patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*T, error)
		Update(ctx context.Context, c *T, o metav1.UpdateOptions) (*T, error)
		Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	}
}

func (k typed[T]) get(ctx context.Context) (*configuration, error) {
	c, err := k.client.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return k.explained("get", c, err)
}

// create is a server-side apply: unlike a creation, it has a name that RBAC can ask for.
func (k typed[T]) create(ctx context.Context, c *configuration) (*configuration, error) {
	data, err := json.Marshal(converted[T](c))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	now, err := k.client.Patch(ctx, Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: FieldManager})
	return k.explained("create", now, err)
}

func (k typed[T]) update(ctx context.Context, c *configuration) (*configuration, error) {
	now, err := k.client.Update(ctx, converted[T](c), metav1.UpdateOptions{FieldManager: FieldManager})
	return k.explained("update", now, err)
}

func (k typed[T]) remove(ctx context.Context, c *configuration) error {
	err := k.client.Delete(ctx, Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain("delete", kindName(k.kind), err)
}

func (k typed[T]) explained(operation string, c *T, err error) (*configuration, error) {
	if err != nil {
		return nil, explain(operation, kindName(k.kind), err)
	}
	return converted[configuration](c), nil
}

// rule is what RBAC must allow.
const rule = `{apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations], ` +
	`resourceNames: [` + Name + `], verbs: [create, get, list, watch, patch, update, delete]}`

// explain names the operation and, where the API server forbids it, what to do.
func explain(operation, kind string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s %s %s: %w; apply manifests/components/webhook-auto, or give the ServiceAccount a ClusterRole with the rule %s", operation, kind, Name, err, rule)
	}
	return fmt.Errorf("%s %s %s: %w", operation, kind, Name, err)
}

func errNotOurs(kind string) error {
	return fmt.Errorf("%s %s exists and was not made by Isthmus (it has no label %s=%s): it stays as it is; rename or remove it, or give it the label to have it taken over",
		kind, Name, nameLabel, Name)
}
