package paravirtual

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
)

// finalizer keeps a VirtualMachineService until its load balancer is gone.
const finalizer = "vmoperator.vmware.com/virtualmachineservice"

// work begins what VM Operator and NSX do.
func (w *World) work(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var working sync.WaitGroup
	for kind, do := range map[schema.GroupVersionResource]func(context.Context, *unstructured.Unstructured) error{VMServices: w.balance, RouteSets: w.realize(RouteSets), StaticRoutes: w.realize(StaticRoutes)} {
		working.Go(func() {
			for ctx.Err() == nil {
				w.watch(ctx, kind, do)
			}
		})
	}
	w.stop = func() { cancel(); working.Wait() }
}

// watch does something with each object as it is now, and whenever it changes.
func (w *World) watch(ctx context.Context, kind schema.GroupVersionResource, do func(context.Context, *unstructured.Unstructured) error) {
	events, err := w.Objects(kind).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		obj, is := e.Object.(*unstructured.Unstructured)
		if !is || e.Type == watch.Deleted {
			continue
		}
		err := do(ctx, obj)
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil { // those follow from another event
			klog.FromContext(ctx).Error(err, "The simulated operator fails", "kind", kind.Resource, "name", obj.GetName())
		}
	}
}

// balance gives a VirtualMachineService its addresses, and lets it go.
func (w *World) balance(ctx context.Context, obj *unstructured.Unstructured) error {
	has := slices.Contains(obj.GetFinalizers(), finalizer)
	switch gone := obj.GetDeletionTimestamp() != nil; {
	case w.Hold.Load(), gone && !has:
		return nil
	case gone:
		obj.SetFinalizers(nil)
		_, err := w.Objects(VMServices).Update(ctx, obj, metav1.UpdateOptions{})
		return err
	case !has:
		obj.SetFinalizers([]string{finalizer})
		_, err := w.Objects(VMServices).Update(ctx, obj, metav1.UpdateOptions{})
		return err
	}
	families, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "ipFamilies")
	if len(families) == 0 {
		families = []string{"IPv4"}
	}
	wish, _, _ := unstructured.NestedString(obj.Object, "spec", "loadBalancerIP")
	now, _, _ := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
	if len(now) == len(families) && (wish == "" || now[0].(map[string]any)["ip"] == wish) {
		return nil
	}
	var ingress []any
	for _, f := range families {
		n := w.last.Add(1)
		ip := fmt.Sprintf("192.0.2.%d", n%250+1)
		switch {
		case wish != "":
			ip = wish
		case f == "IPv6":
			ip = fmt.Sprintf("2001:db8::%x", n)
		}
		ingress = append(ingress, map[string]any{"ip": ip})
	}
	if err := unstructured.SetNestedSlice(obj.Object, ingress, "status", "loadBalancer", "ingress"); err != nil {
		return err
	}
	_, err := w.Objects(VMServices).UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	return err
}

// realize says of a route that it is there.
func (w *World) realize(kind schema.GroupVersionResource) func(context.Context, *unstructured.Unstructured) error {
	return func(ctx context.Context, obj *unstructured.Unstructured) error {
		if conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions"); w.Hold.Load() || len(conditions) > 0 || obj.GetDeletionTimestamp() != nil {
			return nil
		}
		if err := unstructured.SetNestedSlice(obj.Object, []any{map[string]any{"type": "Ready", "status": "True"}}, "status", "conditions"); err != nil {
			return err
		}
		_, err := w.Objects(kind).UpdateStatus(ctx, obj, metav1.UpdateOptions{})
		return err
	}
}
