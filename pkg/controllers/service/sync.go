package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const operationDelete = "delete"

// sync does what is to be done for one Service now. It returns after how long the Service
// is to be looked at again by itself; zero for when something changes.
func (c *Controller) sync(ctx context.Context, key string) time.Duration {
	name, err := cache.ParseObjectName(key)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Not the key of a Service", "key", key)
		return 0
	}
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "service", klog.KRef(name.Namespace, name.Name)))
	e := c.records.get(key)
	read, err := c.services.Services(name.Namespace).Get(name.Name)
	switch {
	case apierrors.IsNotFound(err):
		return c.vanished(ctx, key, e)
	case err != nil:
		klog.FromContext(ctx).Error(err, "Cannot read the Service")
		return firstRetry
	}
	service := newest(read, e.latest)
	if e.service != nil && e.service.UID != service.UID {
		// Deleted and made anew, and we have not seen it gone.
		if again := c.vanished(ctx, key, e); again > 0 {
			return again
		}
		e = c.records.get(key)
	}
	return c.decide(ctx, key, e, service)
}

// decide does what a Service's state asks for.
func (c *Controller) decide(ctx context.Context, key string, e *entry, service *corev1.Service) time.Duration {
	class, served := c.Classes.Of(service)
	asks := wants(service) && service.DeletionTimestamp == nil
	if asks && served {
		if c.classChanged(e, service) {
			// The type was changed away and back: a load balancer cannot change its class.
			old := service
			if e.made {
				old = e.service
			}
			if again := c.remove(ctx, key, e, old, false); again > 0 {
				return again
			}
			e = c.records.get(key)
		}
		return c.ensure(ctx, e, service, class)
	}
	switch {
	case e.made, c.isClaimed(service, e.foreign):
		return c.remove(ctx, key, e, service, true)
	case asks:
		c.leave(e, service)
	case c.stranded(service) != "":
		c.once(e, service, corev1.EventTypeWarning, reasonWarning, fmt.Sprintf(
			"The load balancer is not deleted: the finalizer %q is that of a class which this cloud's configuration has no longer: "+
				"add the class again, or delete the load balancer and the finalizer yourself", c.stranded(service)))
	case service == e.latest: // the informer is behind
	case !e.foreign || !c.isClaimed(service, false):
		c.records.drop(key)
	}
	return 0
}

// leave notes that a Service is served by others.
func (c *Controller) leave(e *entry, service *corev1.Service) {
	e.foreign, e.service = true, service
	if class := service.Spec.LoadBalancerClass; class != nil && c.Classes.Misspelled(*class) {
		c.once(e, service, corev1.EventTypeWarning, reasonWarning, fmt.Sprintf(
			"spec.loadBalancerClass %q is no class of this cloud's configuration, nothing is done for it: use one of %s",
			*service.Spec.LoadBalancerClass, strings.Join(c.Classes.All(), ", ")))
	}
}

// vanished cleans up after a Service that is gone, also when it had no finalizer.
func (c *Controller) vanished(ctx context.Context, key string, e *entry) time.Duration {
	if !e.made {
		c.records.drop(key)
		return 0
	}
	klog.FromContext(ctx).V(2).Info("The Service has gone before its load balancer")
	again := c.remove(ctx, key, e, e.service, false)
	if again == 0 {
		c.records.drop(key) // nothing will be heard of it any more
	}
	return again
}

// remove deletes the load balancer of service and then, if release, what makes the Service
// ours. Afterwards its entry is a new one.
func (c *Controller) remove(ctx context.Context, key string, e *entry, service *corev1.Service, release bool) time.Duration {
	f := failure{service, operationDelete, plan{rest: operationDelete}, reasonFailed, "Error syncing load balancer: failed to delete load balancer"}
	if wait := c.holdBack(e, f.plan); wait > 0 {
		return wait
	}
	e.done, e.made, e.service = nil, true, service
	e.watching.Store(nil)
	c.once(e, service, corev1.EventTypeNormal, reasonDeleting, "Deleting load balancer")
	klog.FromContext(ctx).V(2).Info("Deleting load balancer")
	// Always, whether or not there is one: what was made beside it goes, too.
	hint := c.hint(service)
	if err := cloud.IgnoreNotFound(c.LoadBalancers.Delete(ctx, hint)); err != nil {
		return c.failed(ctx, e, f, err)
	}
	if release {
		if err := c.release(ctx, e, service); err != nil && !apierrors.IsNotFound(err) {
			f.doing = "Error syncing load balancer: failed to remove load balancer cleanup finalizer"
			return c.failed(ctx, e, f, err)
		}
	}
	c.count(operationDelete, resultDone)
	c.Recorder.Event(service, corev1.EventTypeNormal, reasonDeleted, "Deleted load balancer")
	c.records.drop(key)
	c.records.get(key).latest = e.latest
	return 0
}
