package paravirtual

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

const zone, scheme = "zone-a", "vsphere://"

// MakeInstance implements cloudtest.World. Those named CLUSTER-node-N are workers of the cluster.
func (w *World) MakeInstance(ctx context.Context, name string) (cloudtest.Instance, error) {
	n, id := w.last.Add(1), uuid.NewString()
	v4, v6 := fmt.Sprintf("10.96.%d.%d", n/250, n%250+1), fmt.Sprintf("fd00:96::%x", n)
	labels := map[string]any{corev1.LabelTopologyZone: zone}
	if cluster, _, worker := strings.Cut(name, "-node-"); worker {
		labels["capv.vmware.com/cluster.name"], labels["capv.vmware.com/cluster.role"] = cluster, "node"
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Machines.GroupVersion().String(), "kind": "VirtualMachine",
		"metadata": map[string]any{"name": name, "labels": labels}, "spec": map[string]any{"powerState": "PoweredOn"}}}
	made, err := w.Objects(Machines).Create(ctx, obj, metav1.CreateOptions{})
	if err != nil {
		return cloudtest.Instance{}, err
	}
	made.Object["status"] = map[string]any{"biosUUID": id, "powerState": "PoweredOn", "network": map[string]any{"primaryIP4": v4, "primaryIP6": v6,
		"interfaces": []any{map[string]any{"name": "eth0", "ip": map[string]any{"addresses": []any{
			map[string]any{"address": v4 + "/24"}, map[string]any{"address": v6 + "/64"}, map[string]any{"address": "fe80::1/64"}}}}}}}
	_, err = w.Objects(Machines).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return cloudtest.Instance{Ref: cloud.InstanceRef{NodeName: name, ProviderID: scheme + id}, Addresses: []netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)},
		Zone: zone, MachineID: id}, err
}

// ChangeMachine changes the status of a machine.
func (w *World) ChangeMachine(ctx context.Context, name string, value any, fields ...string) error {
	obj, err := w.Objects(Machines).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(obj.Object, value, append([]string{"status"}, fields...)...); err != nil {
		return err
	}
	_, err = w.Objects(Machines).UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	return err
}

// StopInstance implements cloudtest.World.
func (w *World) StopInstance(ctx context.Context, i cloudtest.Instance) error {
	return w.ChangeMachine(ctx, i.Ref.NodeName, "PoweredOff", "powerState")
}

// DeleteInstance implements cloudtest.World.
func (w *World) DeleteInstance(ctx context.Context, i cloudtest.Instance) error {
	return ignore(w.Objects(Machines).Delete(ctx, i.Ref.NodeName, metav1.DeleteOptions{}), apierrors.IsNotFound)
}

// UnknownID implements cloudtest.World.
func (w *World) UnknownID() string { return scheme + uuid.NewString() }

// ForeignID implements cloudtest.World.
func (w *World) ForeignID() string { return "aws:///eu-central-1a/i-0123456789abcdef0" }
