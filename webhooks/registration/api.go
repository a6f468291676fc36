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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

// api reads and writes the configuration of one kind. Errors name the operation and the object.
type api struct {
	rest     rest.Interface
	kind     webhooks.Type
	resource string
	empty    runtime.Object
}

func apiOf(client kubernetes.Interface, t webhooks.Type) api {
	a := api{client.AdmissionregistrationV1().RESTClient(), t, "mutatingwebhookconfigurations", &configuration{}}
	if t == webhooks.Validating {
		a.resource, a.empty = "validatingwebhookconfigurations", &admissionregistrationv1.ValidatingWebhookConfiguration{}
	}
	return a
}

// do makes the request, and returns what the configuration is then.
func (a api) do(ctx context.Context, operation string, r *rest.Request) (*configuration, error) {
	now := a.empty.DeepCopyObject()
	if err := r.Resource(a.resource).Name(Name).Do(ctx).Into(now); err != nil {
		return nil, explain(operation, kindName(a.kind), err)
	}
	return converted(now, &configuration{}), nil
}

// get returns nil when there is none.
func (a api) get(ctx context.Context) (*configuration, error) {
	c, err := a.do(ctx, "get", a.rest.Get())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return c, err
}

// create is a server-side apply: unlike a creation, it has a name that RBAC can ask for.
func (a api) create(ctx context.Context, c *configuration) (*configuration, error) {
	data, err := json.Marshal(converted(c, a.empty.DeepCopyObject()))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return a.do(ctx, "create", a.rest.Patch(types.ApplyPatchType).VersionedParams(&metav1.PatchOptions{FieldManager: FieldManager}, scheme.ParameterCodec).Body(data))
}

// update, and remove, do nothing but fail with a conflict when somebody has changed it.
func (a api) update(ctx context.Context, c *configuration) (*configuration, error) {
	return a.do(ctx, "update", a.rest.Put().VersionedParams(&metav1.UpdateOptions{FieldManager: FieldManager}, scheme.ParameterCodec).Body(converted(c, a.empty.DeepCopyObject())))
}

func (a api) remove(ctx context.Context, c *configuration) error {
	o := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}}
	err := a.rest.Delete().Resource(a.resource).Name(Name).Body(o).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain("delete", kindName(a.kind), err)
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
