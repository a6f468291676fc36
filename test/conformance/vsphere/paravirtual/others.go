package paravirtual

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// unsupported is what the paravirtual mode lacks.
func unsupported() map[cloudtest.Feature]string {
	const none = "no annotation of a Service says anything to a VirtualMachineService"
	out := map[cloudtest.Feature]string{
		cloudtest.InstancesTopology:    "a VirtualMachine tells its zone, but neither type nor region",
		cloudtest.InstancesPodCIDRs:    "pod CIDRs are not taken from NSX",
		cloudtest.LoadBalancerTraffic:  "not tried: no machine is behind the objects",
		cloudtest.LoadBalancerAffinity: "a VirtualMachineService cannot keep clients with a Node",
		cloudtest.LoadBalancerMembers:  "VM Operator picks machines by their labels, whatever becomes of their Nodes",
		cloudtest.LoadBalancerFrozen:   "VM Operator picks machines by their labels, whatever becomes of their Nodes",
		cloudtest.RoutesBlackhole:      "routes lead to addresses, and nothing says that nobody has one any more",
		cloudtest.VolumesZone:          "PersistentVolumes of a guest cluster are labeled by their driver alone",
		cloudtest.VolumesNotFound:      "PersistentVolumes of a guest cluster are labeled by their driver alone",
	}
	for _, f := range []cloudtest.Feature{cloudtest.LoadBalancerHTTP, cloudtest.LoadBalancerTLS, cloudtest.LoadBalancerPROXY, cloudtest.LoadBalancerPROXYv1,
		cloudtest.LoadBalancerInternal, cloudtest.LoadBalancerInward, cloudtest.LoadBalancerHostname, cloudtest.LoadBalancerShared, cloudtest.LoadBalancerOwn} {
		out[f] = none
	}
	return out
}

// AddRoute implements cloudtest.World.
func (w *World) AddRoute(ctx context.Context, r cloud.Route) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": StaticRoutes.GroupVersion().String(), "kind": "StaticRoute", "metadata": map[string]any{"name": routeName(r)},
		"spec": map[string]any{"network": r.Destination.String(), "nextHops": []any{map[string]any{"ipAddress": r.NextHop.String()}}}}}
	_, err := w.Objects(StaticRoutes).Create(ctx, obj, metav1.CreateOptions{})
	return err
}

func routeName(r cloud.Route) string {
	return "operator-" + strings.NewReplacer("/", "-", ".", "-", ":", "-").Replace(r.Destination.String())
}

// RemoveRoute implements cloudtest.World.
func (w *World) RemoveRoute(ctx context.Context, r cloud.Route) error {
	return ignore(w.Objects(StaticRoutes).Delete(ctx, routeName(r), metav1.DeleteOptions{}), apierrors.IsNotFound)
}

// Routes implements cloudtest.World.
func (w *World) Routes(ctx context.Context) ([]cloud.Route, error) {
	all, err := w.Objects(StaticRoutes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []cloud.Route
	for _, o := range all.Items {
		network, _, _ := unstructured.NestedString(o.Object, "spec", "network")
		hops, _, _ := unstructured.NestedSlice(o.Object, "spec", "nextHops")
		for _, h := range hops {
			out = append(out, cloud.Route{Destination: netip.MustParsePrefix(network), NextHop: netip.MustParseAddr(h.(map[string]any)["ipAddress"].(string))})
		}
	}
	return out, nil
}

// MakeVolume implements cloudtest.World.
func (w *World) MakeVolume(context.Context) (*corev1.PersistentVolume, string, error) {
	return nil, "", errors.New("there are no volumes")
}

// DeleteVolume implements cloudtest.World.
func (w *World) DeleteVolume(context.Context, *corev1.PersistentVolume) error { return nil }
