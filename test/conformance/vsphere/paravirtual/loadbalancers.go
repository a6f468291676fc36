package paravirtual

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// Settings implements cloudtest.World: there are no annotations, and families need none.
func (w *World) Settings(_ context.Context, f cloudtest.Feature) (cloud.Settings, error) {
	if f == cloudtest.LoadBalancerIPv6 || f == cloudtest.LoadBalancerDual {
		return nil, nil
	}
	return nil, cloudtest.ErrNoAnnotation
}

// UseLoadBalancer implements cloudtest.World.
func (w *World) UseLoadBalancer(string) cloud.Settings { return nil }

// MakeLoadBalancer implements cloudtest.World.
func (w *World) MakeLoadBalancer(context.Context, string) (string, error) {
	return "", errors.New("no Service could use it")
}

// byAddress is the VirtualMachineService with an address, nil where there is none.
func (w *World) byAddress(ctx context.Context, ip string) (*unstructured.Unstructured, error) {
	all, err := w.Objects(VMServices).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for n := range all.Items {
		if first(&all.Items[n]) == ip {
			return &all.Items[n], nil
		}
	}
	return nil, nil
}

// ingressOf are the addresses of a VirtualMachineService.
func ingressOf(obj *unstructured.Unstructured) (out []netip.Addr) {
	all, _, _ := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
	for _, in := range all {
		out = append(out, netip.MustParseAddr(in.(map[string]any)["ip"].(string)))
	}
	return out
}

func first(obj *unstructured.Unstructured) string {
	if all := ingressOf(obj); len(all) > 0 {
		return all[0].String()
	}
	return ""
}

// LoadBalancerID implements cloudtest.World: the first address, as a name is given again.
func (w *World) LoadBalancerID(s *cloud.LoadBalancerStatus) string { return s.Ingress[0].IP }

// LoadBalancer implements cloudtest.World.
func (w *World) LoadBalancer(ctx context.Context, id string) (*cloudtest.LoadBalancer, error) {
	obj, err := w.byAddress(ctx, id)
	if obj == nil {
		return nil, err
	}
	families, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "ipFamilies")
	members, err := w.members(ctx, obj, len(families) > 0 && families[0] == string(corev1.IPv6Protocol))
	if err != nil {
		return nil, err
	}
	out := &cloudtest.LoadBalancer{ID: id, Public: ingressOf(obj)}
	ports, _, _ := unstructured.NestedSlice(obj.Object, "spec", "ports")
	ranges, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "loadBalancerSourceRanges")
	for _, p := range ports {
		p := p.(map[string]any)
		l := cloudtest.Listener{Port: int32(p["port"].(int64)), Protocol: corev1.Protocol(p["protocol"].(string))} //nolint:gosec // a port
		for _, m := range members {
			l.Members = append(l.Members, netip.AddrPortFrom(m, uint16(p["targetPort"].(int64)))) //nolint:gosec // a port
		}
		for _, r := range ranges {
			l.Clients = append(l.Clients, netip.MustParsePrefix(r))
		}
		const domain = "virtualmachineservice.vmoperator.vmware.com/service."
		if port, err := strconv.Atoi(obj.GetAnnotations()[domain+"healthCheckNodePort"]); err == nil && obj.GetAnnotations()[domain+"externalTrafficPolicy"] == "Local" {
			l.CheckPath, l.CheckPort = "/healthz", int32(port) //nolint:gosec // a port
		}
		out.Listeners = append(out.Listeners, l)
	}
	return out, nil
}

// members are the addresses of the machines that a selector selects.
func (w *World) members(ctx context.Context, obj *unstructured.Unstructured, v6 bool) ([]netip.Addr, error) {
	selector, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "selector")
	all, err := w.Objects(Machines).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector})})
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	field := map[bool]string{false: "primaryIP4", true: "primaryIP6"}[v6]
	for _, m := range all.Items {
		ip, _, _ := unstructured.NestedString(m.Object, "status", "network", field)
		out = append(out, netip.MustParseAddr(ip))
	}
	return out, nil
}

// DeleteLoadBalancer implements cloudtest.World.
func (w *World) DeleteLoadBalancer(ctx context.Context, id string) error {
	obj, err := w.byAddress(ctx, id)
	if obj == nil {
		return err
	}
	return w.remove(ctx, obj.GetName())
}

// remove deletes a VirtualMachineService and waits until it is gone.
func (w *World) remove(ctx context.Context, name string) error {
	if err := ignore(w.Objects(VMServices).Delete(ctx, name, metav1.DeleteOptions{}), apierrors.IsNotFound); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		_, err := w.Objects(VMServices).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignore(err, apierrors.IsNotFound)
	})
}

// ReserveAddress implements cloudtest.World: one that VM Operator gives to nobody who does not ask for it.
func (w *World) ReserveAddress(context.Context) (cloudtest.Address, error) {
	return cloudtest.Address{IP: netip.AddrFrom4([4]byte{198, 51, 100, byte(w.last.Add(1))}), Release: func(context.Context) error { return nil }}, nil
}

// MakeForeign implements cloudtest.World: an object with the same labels of another cluster, and one that a user has made, whose
// name only begins as the Service's.
func (w *World) MakeForeign(ctx context.Context, ref cloud.LoadBalancerRef, id string) (intact, remove func(context.Context) error, err error) {
	own, err := w.byAddress(ctx, id)
	if err != nil || own == nil {
		return nil, nil, fmt.Errorf("there is no VirtualMachineService with %s (%w)", id, err)
	}
	made := map[string]*unstructured.Unstructured{}
	for _, of := range []string{"other", "user"} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": own.GetAPIVersion(), "kind": own.GetKind(), "spec": own.Object["spec"]}}
		obj.SetName(own.GetName() + "-" + of[:1])
		if of == "other" {
			obj.SetLabels(map[string]string{"run.tanzu.vmware.com/cluster.name": ref.Cluster.Name, "run.tanzu.vmware.com/service.name": ref.Name, "run.tanzu.vmware.com/service.namespace": ref.Namespace})
			owner := w.Owner
			owner.UID = "99999999-2222-4333-8444-555555555555"
			obj.SetOwnerReferences([]metav1.OwnerReference{owner})
		}
		if made[of], err = w.Objects(VMServices).Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			return nil, nil, err
		}
	}
	intact = func(ctx context.Context) error {
		for _, was := range made {
			is, err := w.Objects(VMServices).Get(ctx, was.GetName(), metav1.GetOptions{})
			if err != nil || is.GetUID() != was.GetUID() || !reflect.DeepEqual(is.Object["spec"], was.Object["spec"]) || !maps.Equal(is.GetLabels(), was.GetLabels()) {
				return fmt.Errorf("%s was %v and is %v (%w)", was.GetName(), was, is, err)
			}
		}
		return nil
	}
	remove = func(ctx context.Context) error {
		var errs []error
		for _, o := range made {
			errs = append(errs, w.remove(ctx, o.GetName()))
		}
		return errors.Join(errs...)
	}
	return intact, remove, nil
}

// Left implements cloudtest.World.
func (w *World) Left(ctx context.Context, ref cloud.LoadBalancerRef) ([]string, error) {
	all, err := w.Objects(VMServices).List(ctx, metav1.ListOptions{LabelSelector: "run.tanzu.vmware.com/service.name=" + ref.Name + ",isthmus-cloud.github.io/cluster-uid=" + ref.Cluster.UID})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, o := range all.Items {
		out = append(out, o.GetName())
	}
	return out, nil
}

// Everything implements cloudtest.World.
func (w *World) Everything(ctx context.Context) ([]string, error) {
	var out []string
	for _, kind := range kinds() {
		all, err := w.Objects(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range all.Items {
			out = append(out, kind.Resource+" "+o.GetName()+" "+string(o.GetUID()))
		}
	}
	return out, nil
}
