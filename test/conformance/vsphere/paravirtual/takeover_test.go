package paravirtual_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual"
	world "github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// provider is that of a cloud.conf which says other things than the suite's: pairs of old and new text.
func provider(t *testing.T, w *world.World, o cloud.Options, change ...string) *cloud.Provider {
	t.Helper()
	conf, err := w.Config(strings.NewReplacer(change...))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := paravirtual.New(t.Context(), conf, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asOfOld are the settings of a guest cluster without a VPC and IPv6.
var asOfOld = []string{"v1alpha6", "v1alpha2", "ipv4ipv6", "ipv4", "enableVPCMode: true", "enableVPCMode: false", "podIPPoolType: Private", ""}

// guest is the guest cluster as the process knows it.
func guest(w *world.World) cloud.Cluster {
	return cloud.Cluster{Name: "guest", UID: "kube-system-uid", ID: string(w.Owner.UID), PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")}}
}

// service is a Service default/web.
func service(w *world.World) *cloud.LoadBalancerSpec {
	return &cloud.LoadBalancerSpec{LoadBalancerRef: cloud.LoadBalancerRef{Cluster: guest(w), Namespace: "default", Name: "web", UID: "service-uid"},
		Ports: []cloud.LoadBalancerPort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}
}

// create makes an object as somebody else does, whose apiVersion is in it.
func create(t *testing.T, w *world.World, kind schema.GroupVersionResource, object map[string]any) *unstructured.Unstructured {
	t.Helper()
	group, version, _ := strings.Cut(object["apiVersion"].(string), "/")
	kind.Group, kind.Version = group, version
	made, err := w.Objects(kind).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func owners(w *world.World, more ...any) []any {
	o := w.Owner
	return append([]any{map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "name": o.Name, "uid": string(o.UID)}}, more...)
}

// asMade is the object that the existing manager makes of the Service web, with a name.
func asMade(w *world.World, version, name string) map[string]any {
	return map[string]any{
		"apiVersion": "vmoperator.vmware.com/" + version, "kind": "VirtualMachineService",
		"metadata": map[string]any{"name": name, "namespace": w.Namespace, "ownerReferences": owners(w),
			"labels": map[string]any{"run.tanzu.vmware.com/cluster.name": "guest", "run.tanzu.vmware.com/service.name": "web", "run.tanzu.vmware.com/service.namespace": "default"}},
		"spec": map[string]any{"type": "LoadBalancer", "selector": map[string]any{"capv.vmware.com/cluster.name": "guest", "capv.vmware.com/cluster.role": "node"},
			"ports": []any{map[string]any{"name": "http", "protocol": "TCP", "port": int64(80), "targetPort": int64(30080)}}},
	}
}

// served waits until VM Operator has given an object its address.
func served(t *testing.T, w *world.World, name string) string {
	t.Helper()
	var ip string
	eventually.Met(t, func() string {
		obj, err := w.Objects(world.VMServices).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all, _, _ := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
		if len(all) == 0 {
			return name + " has no address"
		}
		ip, _ = all[0].(map[string]any)["ip"].(string)
		return ""
	})
	return ip
}

// The objects of the existing manager serve on without a write, by whatever version of the API and under whatever name they were
// made, and go with their Service.
func TestLoadBalancersAreTakenOver(t *testing.T) {
	const now, old = "guest-f8baa80a04b55ffc319a4", "guest-0123456789abcdef01234"
	everything := func(object map[string]any) map[string]any {
		spec := object["spec"].(map[string]any)
		spec["loadBalancerIP"], spec["loadBalancerSourceRanges"] = "203.0.113.9", []any{"192.0.2.0/24", "10.0.0.0/8"}
		object["metadata"].(map[string]any)["annotations"] = map[string]any{"virtualmachineservice.vmoperator.vmware.com/service.externalTrafficPolicy": "Local",
			"virtualmachineservice.vmoperator.vmware.com/service.healthCheckNodePort": "32000", "example.com/copied": "from the Service"}
		return object
	}
	wish := func(s *cloud.LoadBalancerSpec) {
		s.LoadBalancerIP, s.HealthCheck = netip.MustParseAddr("203.0.113.9"), &cloud.HealthCheck{Port: 32000, Path: "/healthz"}
		s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
	}
	families := func(object map[string]any, policy string, families ...any) map[string]any {
		object["spec"].(map[string]any)["ipFamilies"], object["spec"].(map[string]any)["ipFamilyPolicy"] = families, policy
		return object
	}
	w := start(t, "takeover")
	for name, tt := range map[string]struct {
		object map[string]any
		conf   []string
		change func(*cloud.LoadBalancerSpec)
	}{
		"plain":                   {asMade(w, "v1alpha2", now), asOfOld, nil},
		"of an older version":     {asMade(w, "v1alpha2", old), asOfOld, nil},
		"with all that it can be": {everything(asMade(w, "v1alpha2", now)), asOfOld, wish},
		"of one family":           {families(asMade(w, "v1alpha6", now), "SingleStack", "IPv4"), nil, nil},
		"of two families": {families(asMade(w, "v1alpha6", now), "RequireDualStack", "IPv6", "IPv4"), nil, func(s *cloud.LoadBalancerSpec) {
			s.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}},
	} {
		made := create(t, w, world.VMServices, tt.object)
		ip := served(t, w, made.GetName())
		p, s := provider(t, w, cloud.Options{}, tt.conf...), service(w)
		if tt.change != nil {
			tt.change(s)
		}
		w.Requests()
		status, err := p.LoadBalancers.Ensure(t.Context(), s)
		if err != nil || status.Ingress[0].IP != ip {
			t.Errorf("%s: %+v, %v; want %s", name, status, err, ip)
		}
		if err := p.LoadBalancers.UpdateMembers(t.Context(), s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if writes := world.Writes(w.Requests()); len(writes) > 0 {
			t.Errorf("%s: %q", name, writes)
		}
		all := []*unstructured.Unstructured{made}
		if name == "plain" { // what was left of an older version goes with it
			all = append(all, create(t, w, world.VMServices, asMade(w, "v1alpha2", old)))
		}
		eventually.Met(t, func() string { // VM Operator takes its time
			if err := p.LoadBalancers.Delete(t.Context(), s); err != nil {
				if cloud.KindOf(err) != cloud.KindRetryAfter {
					t.Fatalf("%s: %v", name, err)
				}
				return err.Error()
			}
			return ""
		})
		for _, one := range all {
			if _, err := w.Objects(world.VMServices).Get(t.Context(), one.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("%s: deleted, but %s: %v", name, one.GetName(), err)
			}
		}
	}
}

// The routes of the existing manager are the cluster's, without a write, and go with their Node.
func TestRoutesAreTakenOver(t *testing.T) {
	w := start(t, "routes")
	labels := func(family string) map[string]any {
		return map[string]any{"clusterName": "guest", "nodeName": "node-1", "ipfamily": family}
	}
	node := map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "77777777-2222-4333-8444-555555555555"}
	create(t, w, world.RouteSets, map[string]any{"apiVersion": "nsx.vmware.com/v1alpha1", "kind": "RouteSet",
		"metadata": map[string]any{"name": "node-1", "labels": labels("ipv4"), "ownerReferences": owners(w, node)},
		"spec":     map[string]any{"routes": []any{map[string]any{"name": "node-1-10.244.1.0-24-guest", "destination": "10.244.1.0/24", "target": "10.0.0.1"}}}})
	for name, at := range map[string][2]string{"node-1": {"10.244.1.0/24", "10.0.0.1"}, "node-1-ipv6": {"fd00:10:244:1::/64", "fd00::1"}} {
		family := map[bool]string{false: "ipv4", true: "ipv6"}[strings.HasSuffix(name, "ipv6")]
		create(t, w, world.StaticRoutes, map[string]any{"apiVersion": "crd.nsx.vmware.com/v1alpha1", "kind": "StaticRoute",
			"metadata": map[string]any{"name": name, "labels": labels(family), "ownerReferences": owners(w, node)},
			"spec":     map[string]any{"network": at[0], "nextHops": []any{map[string]any{"ipAddress": at[1]}}}})
	}
	ref := cloud.InstanceRef{NodeName: "node-1"}
	v4 := cloud.Route{Destination: netip.MustParsePrefix("10.244.1.0/24"), NextHop: netip.MustParseAddr("10.0.0.1"), Node: ref}
	v6 := cloud.Route{Destination: netip.MustParsePrefix("fd00:10:244:1::/64"), NextHop: netip.MustParseAddr("fd00::1"), Node: ref}
	for name, tt := range map[string]struct {
		conf []string
		want []cloud.Route
		kind schema.GroupVersionResource
	}{"RouteSets": {asOfOld, []cloud.Route{v4}, world.RouteSets}, "StaticRoutes": {nil, []cloud.Route{v4, v6}, world.StaticRoutes}} {
		p := provider(t, w, cloud.Options{}, tt.conf...)
		w.Requests()
		for _, err := range p.Routes.Apply(t.Context(), guest(w), tt.want, nil) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		list, err := p.Routes.List(t.Context(), guest(w))
		if err != nil || len(list) != len(tt.want) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		for _, r := range list {
			if !r.Ours || r.Partial || !slices.ContainsFunc(tt.want, func(o cloud.Route) bool { return o.Destination == r.Destination && o.NextHop == r.NextHop }) {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if writes := world.Writes(w.Requests()); len(writes) > 0 {
			t.Errorf("%s: %q", name, writes)
		}
		for _, err := range p.Routes.Apply(t.Context(), guest(w), nil, list) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left, err := w.Objects(tt.kind).List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// What is made is what the existing manager makes, field by field; only the cluster's UID is more, and a Node is no owner in another cluster.
func TestObjectsAreThoseOfTheExistingManager(t *testing.T) {
	w := start(t, "made")
	p := provider(t, w, cloud.Options{}, asOfOld...)
	s := service(w)
	var published string
	eventually.Met(t, func() string {
		status, err := p.LoadBalancers.Ensure(t.Context(), s)
		if err != nil {
			return err.Error()
		}
		published = status.Ingress[0].IP
		return ""
	})
	got, err := w.Objects(world.VMServices).Get(t.Context(), "guest-f8baa80a04b55ffc319a4", metav1.GetOptions{})
	if err != nil || served(t, w, got.GetName()) != published {
		t.Fatalf("%v, published is %s", err, published)
	}
	want := asMade(w, "v1alpha2", got.GetName())
	labels := got.GetLabels()
	if labels["isthmus-cloud.github.io/cluster-uid"] != guest(w).UID {
		t.Errorf("%v", labels)
	}
	delete(labels, "isthmus-cloud.github.io/cluster-uid")
	got.SetLabels(labels)
	same(t, want, got)
	route := cloud.Route{Destination: netip.MustParsePrefix("10.244.1.0/24"), NextHop: netip.MustParseAddr("10.0.0.1"), Node: cloud.InstanceRef{NodeName: "node-1"}}
	if err := p.Routes.Apply(t.Context(), guest(w), []cloud.Route{route}, nil)[0]; err != nil {
		t.Fatal(err)
	}
	if got, err = w.Objects(world.RouteSets).Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, map[string]any{"metadata": map[string]any{"labels": map[string]any{"clusterName": "guest", "nodeName": "node-1", "ipfamily": "ipv4"}, "ownerReferences": owners(w)},
		"spec": map[string]any{"routes": []any{map[string]any{"name": "node-1-10.244.1.0-24-guest", "destination": "10.244.1.0/24", "target": "10.0.0.1"}}}}, got)
}
