package registration

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

// api reads and writes the configurations of one kind.
type api interface {
	get(ctx context.Context, name string) (*configuration, error)
	patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions) (*configuration, error)
	update(ctx context.Context, c *configuration, o metav1.UpdateOptions) (*configuration, error)
	delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	informer(f informers.SharedInformerFactory) cache.SharedIndexInformer
	// own returns c as it has to be sent.
	own(c *configuration) any
	// from returns what own has made, or the API server has sent; nil for anything else.
	from(obj any) *configuration
}

func apiOf(client kubernetes.Interface, kind webhooks.Type) api {
	c := client.AdmissionregistrationV1()
	if kind == webhooks.Validating {
		return validating{c.ValidatingWebhookConfigurations()}
	}
	return mutating{c.MutatingWebhookConfigurations()}
}

type mutating struct {
	c typed.MutatingWebhookConfigurationInterface
}

func (m mutating) get(ctx context.Context, name string) (*configuration, error) {
	return m.c.Get(ctx, name, metav1.GetOptions{})
}

func (m mutating) patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions) (*configuration, error) {
	return m.c.Patch(ctx, name, t, data, o)
}

func (m mutating) update(ctx context.Context, c *configuration, o metav1.UpdateOptions) (*configuration, error) {
	return m.c.Update(ctx, c, o)
}

func (m mutating) delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return m.c.Delete(ctx, name, o)
}

func (mutating) informer(f informers.SharedInformerFactory) cache.SharedIndexInformer {
	return f.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
}

func (mutating) own(c *configuration) any { return c }

func (mutating) from(obj any) *configuration {
	c, _ := obj.(*admissionregistrationv1.MutatingWebhookConfiguration)
	return c
}

type validating struct {
	c typed.ValidatingWebhookConfigurationInterface
}

func (v validating) get(ctx context.Context, name string) (*configuration, error) {
	return converted(v.c.Get(ctx, name, metav1.GetOptions{}))
}

func (v validating) patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions) (*configuration, error) {
	return converted(v.c.Patch(ctx, name, t, data, o))
}

func (v validating) update(ctx context.Context, c *configuration, o metav1.UpdateOptions) (*configuration, error) {
	return converted(v.c.Update(ctx, toValidating(c), o))
}

func (v validating) delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return v.c.Delete(ctx, name, o)
}

func (validating) informer(f informers.SharedInformerFactory) cache.SharedIndexInformer {
	return f.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
}

func (validating) own(c *configuration) any { return toValidating(c) }

func (validating) from(obj any) *configuration {
	if c, ok := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
		return fromValidating(c)
	}
	return nil
}

func converted(c *admissionregistrationv1.ValidatingWebhookConfiguration, err error) (*configuration, error) {
	if err != nil {
		return nil, err
	}
	return fromValidating(c), nil
}
