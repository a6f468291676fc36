package paravirtual_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	world "github.com/isthmus-cloud/isthmus/test/conformance/vsphere/paravirtual"
)

// same compares labels, owners and spec.
func same(t *testing.T, want map[string]any, got *unstructured.Unstructured) {
	t.Helper()
	for _, fields := range [][]string{{"metadata", "labels"}, {"metadata", "ownerReferences"}, {"metadata", "annotations"}, {"spec"}} {
		w, _, _ := unstructured.NestedFieldNoCopy(want, fields...)
		g, _, _ := unstructured.NestedFieldNoCopy(got.Object, fields...)
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strings.Join(fields, "."), diff)
		}
	}
}

// Any number of Nodes is one list; a Node without a provider ID that is looked at alone is one read.
func TestNodesAreAskedTogether(t *testing.T) {
	w := start(t, "together")
	p := provider(t, w, cloud.Options{})
	var refs []cloud.InstanceRef
	for n := range 20 {
		i, err := w.MakeInstance(t.Context(), fmt.Sprint("vm-", n))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, i.Ref, cloud.InstanceRef{NodeName: i.Ref.NodeName}, cloud.InstanceRef{NodeName: i.Ref.NodeName, SystemUUID: strings.ToUpper(i.MachineID)})
	}
	w.Requests()
	for n, r := range p.Instances.Find(t.Context(), refs) {
		if r.Err != nil || r.Value.Name != refs[n].NodeName {
			t.Errorf("%+v: %+v, %v", refs[n], r.Value, r.Err)
		}
	}
	if got := w.Requests(); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if _, err := p.Instances.Get(t.Context(), refs[1]); err != nil {
		t.Error(err)
	}
	if got := w.Requests(); len(got) != 1 || !strings.HasSuffix(got[0], "/virtualmachines/vm-0") {
		t.Errorf("%q", got)
	}
}

// Only a list that shows other machines says that one is gone.
func TestDoubtIsNotFound(t *testing.T) {
	w := start(t, "doubt")
	p := provider(t, w, cloud.Options{})
	unknown := []cloud.InstanceRef{{NodeName: "none"}, {NodeName: "none", ProviderID: w.UnknownID()}}
	want := func(what string, kind cloud.Kind) {
		t.Helper()
		for _, ref := range unknown {
			if _, err := p.Instances.Get(t.Context(), ref); cloud.KindOf(err) != kind || err == nil {
				t.Errorf("%s: %+v: %v", what, ref, err)
			}
		}
	}
	want("a namespace without machines", cloud.KindUnavailable)
	i, err := w.MakeInstance(t.Context(), "vm")
	if err != nil {
		t.Fatal(err)
	}
	want("others are there", cloud.KindNotFound)
	unknown = append(unknown, i.Ref)
	for status, kind := range map[int]cloud.Kind{http.StatusServiceUnavailable: cloud.KindUnavailable, http.StatusForbidden: cloud.KindDenied, http.StatusUnauthorized: cloud.KindDenied,
		http.StatusNotFound: cloud.KindUnknown, http.StatusTooManyRequests: cloud.KindThrottled, http.StatusBadGateway: cloud.KindUnavailable} {
		undo := w.Refuse(status)
		want(fmt.Sprint(status), kind)
		undo()
	}
	p = provider(t, w, cloud.Options{}, "v1alpha6", "v1alpha5", "ipv4ipv6", "ipv4") // which this Supervisor lacks
	want("no such version", cloud.KindUnknown)
}

// A machine that is not made yet, that is another one than the Node says, or that is there twice, is no answer, and none is gone.
func TestMachinesThatAreNoAnswer(t *testing.T) {
	w := start(t, "odd")
	p := provider(t, w, cloud.Options{})
	i, err := w.MakeInstance(t.Context(), "vm")
	if err != nil {
		t.Fatal(err)
	}
	change := func(value any, fields ...string) {
		t.Helper()
		if err := w.ChangeMachine(t.Context(), "vm", value, fields...); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, kind cloud.Kind, ref cloud.InstanceRef) {
		t.Helper()
		_, err := p.Instances.Get(t.Context(), ref)
		found := p.Instances.Find(t.Context(), []cloud.InstanceRef{ref})[0].Err
		if cloud.KindOf(err) != kind || cloud.KindOf(found) != kind || err == nil {
			t.Errorf("%s: %v, %v", what, err, found)
		}
	}
	byName := cloud.InstanceRef{NodeName: "vm"}
	want("another machine", cloud.KindConflict, cloud.InstanceRef{NodeName: "vm", SystemUUID: "11111111-2222-4333-8444-555555555555"})
	for _, id := range []string{"vsphere://", "vsphere://x", "openstack:///" + i.MachineID} {
		want(id, cloud.KindInvalid, cloud.InstanceRef{NodeName: "vm", ProviderID: id})
	}
	change(map[string]any{}, "network")
	want("no address", cloud.KindRetryAfter, byName)
	if got, err := p.Instances.Get(t.Context(), i.Ref); err != nil || len(got.Addresses) > 0 { // one that has lost it is there all the same
		t.Errorf("%+v, %v", got, err)
	}
	change("", "biosUUID")
	want("no UUID", cloud.KindRetryAfter, byName)
	twin, err := w.MakeInstance(t.Context(), "twin")
	if err != nil {
		t.Fatal(err)
	}
	change(twin.MachineID, "biosUUID")
	want("two", cloud.KindConflict, twin.Ref)
}

// Nodes get the addresses of their cluster's families, in its order, each once.
func TestAddresses(t *testing.T) {
	w := start(t, "addresses")
	i, err := w.MakeInstance(t.Context(), "vm")
	if err != nil {
		t.Fatal(err)
	}
	v4, v6 := i.Addresses[0].String(), i.Addresses[1].String()
	second := []any{map[string]any{"ip": map[string]any{"addresses": []any{map[string]any{"address": v6 + "/64"}, map[string]any{"address": "192.0.2.9/24"}, map[string]any{"address": "fe80::2"}, map[string]any{"address": "?"}}}}}
	if err := w.ChangeMachine(t.Context(), "vm", second, "network", "interfaces"); err != nil {
		t.Fatal(err)
	}
	for family, want := range map[string][]string{"ipv4": {v4, "192.0.2.9"}, "ipv6": {v6}, "ipv4ipv6": {v4, v6, "192.0.2.9"}, "ipv6ipv4": {v6, v4, "192.0.2.9"}} {
		got, err := provider(t, w, cloud.Options{}, "ipv4ipv6", family).Instances.Get(t.Context(), i.Ref)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, a := range got.Addresses {
			all = append(all, a.Address)
			if a.Type != "InternalIP" {
				t.Errorf("%+v", a)
			}
		}
		if !slices.Equal(all, want) {
			t.Errorf("%s: %q, want %q", family, all, want)
		}
	}
}

// An update is one write, which changes what is ours and differs, and nothing that others have put beside it.
func TestUpdateLeavesWhatIsOthers(t *testing.T) {
	w := start(t, "update")
	object := asMade(w, "v1alpha6", "guest-f8baa80a04b55ffc319a4")
	object["metadata"].(map[string]any)["annotations"] = map[string]any{"example.com/a": "b", "virtualmachineservice.vmoperator.vmware.com/service.externalTrafficPolicy": "Local",
		"virtualmachineservice.vmoperator.vmware.com/service.healthCheckNodePort": "32000"}
	object["metadata"].(map[string]any)["labels"].(map[string]any)["example.com/l"] = "m"
	object["spec"].(map[string]any)["selector"] = map[string]any{"capw.vmware.com/cluster.name": "guest"}
	create(t, w, world.VMServices, object)
	served(t, w, "guest-f8baa80a04b55ffc319a4")
	p, s := provider(t, w, cloud.Options{}, asOfOld...), service(w)
	s.Ports[0].NodePort = 30081
	w.Requests()
	if _, err := p.LoadBalancers.Ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if writes := world.Writes(w.Requests()); len(writes) != 1 || !strings.HasPrefix(writes[0], "PUT ") {
		t.Errorf("%q", writes)
	}
	got, err := w.Objects(world.VMServices).Get(t.Context(), "guest-f8baa80a04b55ffc319a4", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := asMade(w, "v1alpha6", "")
	want["metadata"].(map[string]any)["annotations"] = map[string]any{"example.com/a": "b"}
	labels := want["metadata"].(map[string]any)["labels"].(map[string]any)
	labels["example.com/l"], labels["isthmus-cloud.github.io/cluster-uid"] = "m", guest(w).UID
	want["spec"].(map[string]any)["selector"] = map[string]any{"capw.vmware.com/cluster.name": "guest"}
	want["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["targetPort"] = int64(30081)
	same(t, want, got)
}

// While VM Operator works, the Service waits, and is written once; what is being deleted is waited for, too.
func TestWaits(t *testing.T) {
	w := start(t, "waits")
	w.Hold.Store(true)
	p, s := provider(t, w, cloud.Options{}), service(w)
	w.Requests()
	for range 3 {
		if status, err := p.LoadBalancers.Ensure(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter || status != nil {
			t.Errorf("%+v, %v", status, err)
		}
	}
	if writes := world.Writes(w.Requests()); len(writes) != 1 {
		t.Errorf("%q", writes)
	}
	obj, err := w.Objects(world.VMServices).Get(t.Context(), "guest-f8baa80a04b55ffc319a4", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj.SetFinalizers([]string{"example.com/busy"})
	if obj, err = w.Objects(world.VMServices).Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.LoadBalancers.Delete(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Errorf("%v", err)
		}
		if _, err := p.LoadBalancers.Ensure(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter {
			t.Errorf("%v", err)
		}
	}
	if writes := world.Writes(w.Requests()); len(writes) != 1 {
		t.Errorf("%q", writes)
	}
	if obj, err = w.Objects(world.VMServices).Get(t.Context(), obj.GetName(), metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	obj.SetFinalizers(nil)
	if _, err = w.Objects(world.VMServices).Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.LoadBalancers.Delete(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// An object with the Service's name or labels that is not provably the cluster's is neither changed nor deleted.
func TestOthersAreLeftAlone(t *testing.T) {
	w := start(t, "others")
	p, s := provider(t, w, cloud.Options{}, asOfOld...), service(w)
	const name = "guest-f8baa80a04b55ffc319a4"
	for what, owner := range map[string][]any{"another cluster's": {map[string]any{"apiVersion": w.Owner.APIVersion, "kind": "Cluster", "name": "guest", "uid": "other"}}, "nobody's": nil} {
		object := asMade(w, "v1alpha2", name)
		object["metadata"].(map[string]any)["ownerReferences"] = owner
		create(t, w, world.VMServices, object)
		s.Ports[0].NodePort = 30082
		w.Requests()
		if _, err := p.LoadBalancers.Ensure(t.Context(), s); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("%s: %v", what, err)
		}
		if err := p.LoadBalancers.UpdateMembers(t.Context(), s); cloud.KindOf(err) != cloud.KindConflict {
			t.Errorf("%s: %v", what, err)
		}
		if err := p.LoadBalancers.Delete(t.Context(), s); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if writes := world.Writes(w.Requests()); len(writes) > 0 {
			t.Errorf("%s: %q", what, writes)
		}
		if err := w.DeleteLoadBalancer(t.Context(), served(t, w, name)); err != nil {
			t.Fatal(err)
		}
	}
	object := asMade(w, "v1alpha2", name) // nobody's, but the Service shows its address
	object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster", "name": "guest", "uid": "of-old", "controller": true}}
	create(t, w, world.VMServices, object)
	published := served(t, w, name)
	s = service(w)
	s.CurrentIngress = append(s.CurrentIngress, corev1.LoadBalancerIngress{IP: published})
	if status, err := p.LoadBalancers.Ensure(t.Context(), s); err != nil || status.Ingress[0].IP != published {
		t.Errorf("%+v, %v", status, err)
	}
	got, err := w.Objects(world.VMServices).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || len(got.GetOwnerReferences()) != 2 || got.GetOwnerReferences()[1].UID != w.Owner.UID || got.GetLabels()["isthmus-cloud.github.io/cluster-uid"] != guest(w).UID {
		t.Errorf("%+v, %v", got, err)
	}
	create(t, w, world.VMServices, asMade(w, "v1alpha2", "guest-0123456789abcdef01234"))
	if err := w.DeleteLoadBalancer(t.Context(), published); err != nil {
		t.Fatal(err)
	}
	create(t, w, world.VMServices, asMade(w, "v1alpha2", "guest-1123456789abcdef01234"))
	if _, err := p.LoadBalancers.Ensure(t.Context(), s); cloud.KindOf(err) != cloud.KindConflict || !strings.Contains(err.Error(), "two objects") {
		t.Errorf("two of older names: %v", err)
	}
}

// A field that the Supervisor does not know is an error, and not left out silently.
func TestUnknownFieldsAreRefused(t *testing.T) {
	w := start(t, "unknown")
	object := asMade(w, "v1alpha2", "web")
	object["spec"].(map[string]any)["ipFamilies"] = []any{"IPv4"}
	kind := world.VMServices
	kind.Version = "v1alpha2"
	_, err := w.Objects(kind).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("%v: the kinds of this test are not strict", err)
	}
}

// A dry run changes nothing.
func TestDryRun(t *testing.T) {
	w := start(t, "dry")
	p, s := provider(t, w, cloud.Options{DryRun: true}), service(w)
	if _, err := p.LoadBalancers.Ensure(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("%v", err)
	}
	create(t, w, world.VMServices, asMade(w, "v1alpha6", "guest-f8baa80a04b55ffc319a4"))
	ip := served(t, w, "guest-f8baa80a04b55ffc319a4")
	s.Ports[0].NodePort++
	if status, err := p.LoadBalancers.Ensure(t.Context(), s); err != nil || status.Ingress[0].IP != ip {
		t.Errorf("%+v, %v", status, err)
	}
	if err := p.LoadBalancers.Delete(t.Context(), s); cloud.KindOf(err) != cloud.KindRetryAfter {
		t.Errorf("%v", err)
	}
	if writes := world.Writes(w.Requests()); len(writes) > 0 {
		t.Errorf("%q", writes)
	}
}

// The rights that the guide asks for are those with which these tests run.
func TestGuideHasTheRights(t *testing.T) {
	role, err := os.ReadFile("testdata/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../../docs/guides/install-vsphere-paravirtual.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), string(role)) {
		t.Error("the guide does not show the role of this test")
	}
}
