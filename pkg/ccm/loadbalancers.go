package ccm

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

// defaultRetryAfter is when an unfinished load balancer is looked at again if the cloud names no time.
const defaultRetryAfter = 5 * time.Second

// loadBalancers implements cloudprovider.LoadBalancer.
type loadBalancers struct {
	*adapter
	client   kubernetes.Interface
	recorder record.EventRecorder
	done     completions
}

var _ cloudprovider.LoadBalancer = (*loadBalancers)(nil)

func newLoadBalancers(a *adapter, client kubernetes.Interface, recorder record.EventRecorder) *loadBalancers {
	return &loadBalancers{adapter: a, client: client, recorder: recorder, done: completions{byUID: map[types.UID]completion{}}}
}

// GetLoadBalancerName implements cloudprovider.LoadBalancer. Nothing of the framework asks
// for it; the cloud's names are the provider's business.
func (*loadBalancers) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer. The framework asks only before a
// deletion and after a failed update, and skips the deletion (or swallows the error) on
// "does not exist"; what is left of a load balancer that is gone itself would leak. So
// every one of ours exists, and EnsureLoadBalancerDeleted decides. Services of another load
// balancer class are refused: the framework would take their controller's finalizer away.
func (l *loadBalancers) GetLoadBalancer(_ context.Context, _ string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if class := service.Spec.LoadBalancerClass; class != nil {
		return nil, false, fmt.Errorf("load balancer class %q belongs to another controller, which must clean up", *class)
	}
	return service.Status.LoadBalancer.DeepCopy(), true, nil
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (l *loadBalancers) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	ctx, done, err := l.calls.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	spec, err := l.plan(service, nodes)
	if err != nil {
		return nil, oneLine(err)
	}
	wanted := fingerprintOf(spec, l.provider.Annotations)
	if status := l.done.echo(service, wanted, time.Now()); status != nil {
		klog.FromContext(ctx).V(4).Info("Only our own annotations of the Service have changed", "service", klog.KObj(service))
		return status, nil
	}
	l.done.forget(service.UID)
	status, err := l.provider.LoadBalancers.Ensure(ctx, spec)
	if err != nil {
		return nil, retryError(err)
	}
	for _, w := range status.Warnings {
		l.recorder.Event(service, corev1.EventTypeWarning, "LoadBalancerWarning", w)
	}
	wrote, err := l.annotate(ctx, service, status.Annotations)
	if err != nil {
		return nil, err
	}
	published := &corev1.LoadBalancerStatus{Ingress: status.Ingress}
	c := completion{spec: wanted, status: published.DeepCopy()}
	if wrote {
		c.annotations, c.echoUntil = maps.Clone(status.Annotations), time.Now().Add(echoWindow)
	}
	l.done.put(service.UID, c)
	return published, nil
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer. After an error the framework
// ensures the load balancer with the nodes of then.
func (l *loadBalancers) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	ctx, done, err := l.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	spec, err := l.plan(service, nodes)
	if err != nil {
		return oneLine(err)
	}
	wanted := fingerprintOf(spec, l.provider.Annotations)
	if !l.done.sameButMembers(service.UID, wanted) {
		return fmt.Errorf("the load balancer of Service %s/%s is not complete yet: it will be ensured with the new nodes", service.Namespace, service.Name)
	}
	if err := l.provider.LoadBalancers.UpdateMembers(ctx, spec); err != nil {
		return retryError(err)
	}
	l.done.members(service.UID, wanted)
	return nil
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (l *loadBalancers) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	ctx, done, err := l.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	l.done.forget(service.UID)
	err = l.provider.LoadBalancers.Delete(ctx, lb.Ref(service, l.cluster, l.provider.Annotations))
	if err == nil || cloud.IsNotFound(err) {
		return nil
	}
	return retryError(err)
}

// plan plans the Service and publishes the warnings.
func (l *loadBalancers) plan(service *corev1.Service, nodes []*corev1.Node) (*cloud.LoadBalancerSpec, error) {
	spec, warnings, err := lb.Plan(service, nodes, l.cluster, l.provider.Annotations)
	for _, w := range warnings {
		l.recorder.Event(service, corev1.EventTypeWarning, "LoadBalancerWarning", w)
	}
	return spec, err
}

// annotate makes the Service carry want, where an empty value means that there shall be no
// such annotation. It reports whether that needed a write, which goes to the status
// subresource: no right to change Services is needed.
func (l *loadBalancers) annotate(ctx context.Context, service *corev1.Service, want map[string]string) (bool, error) {
	updated := service.DeepCopy()
	changed := false
	for name, value := range want {
		switch current, ok := service.Annotations[name]; {
		case value == "" && ok:
			delete(updated.Annotations, name)
			changed = true
		case value != "" && current != value:
			if updated.Annotations == nil {
				updated.Annotations = map[string]string{}
			}
			updated.Annotations[name] = value
			changed = true
		}
	}
	if !changed {
		return false, nil
	}
	_, err := servicehelper.PatchService(l.client.CoreV1(), service, updated)
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Service is gone, its annotations are not written", "service", klog.KObj(service))
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write the load balancer's annotations to Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	return true, nil
}

// retryError makes the framework look again when the cloud wants it to, instead of
// with its exponential backoff.
func retryError(err error) error {
	switch cloud.KindOf(err) {
	case cloud.KindRetryAfter, cloud.KindThrottled:
		after := cloud.RetryAfter(err)
		if after <= 0 {
			after = defaultRetryAfter
		}
		return api.NewRetryError(oneLine(err).Error(), after)
	default:
		return oneLine(err)
	}
}

// oneLine puts joined errors into one line, as events show them. The chain ends here: the
// framework looks only for its own errors.
func oneLine(err error) error {
	if !strings.Contains(err.Error(), "\n") {
		return err
	}
	return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
}
