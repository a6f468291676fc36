package registration_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// Nothing is registered before this replica serves; then both kinds are, and after that
// nobody writes.
func TestRegistersOnceReady(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, func(_ *registration.Options, r *replica) { r.ready.Store(false) })
	wait(t, 500*time.Millisecond)
	if c.mutating(t) != nil || c.validating(t) != nil || r.writes.Load() != 0 {
		t.Fatal("webhooks are registered although nothing serves them")
	}
	r.ready.Store(true)
	if n := r.settle(t); n != 2 {
		t.Errorf("%d writes, want one for each kind", n)
	}
	o := registration.NewOptions()
	o.Webhooks = testHooks()
	m, v := registration.Configurations(o, []byte(authority("ca")))
	if diff := cmp.Diff(m.Webhooks, c.mutating(t).Webhooks); diff != "" {
		t.Errorf("the API server has completed what must be said (-rendered +stored):\n%s", diff)
	}
	if diff := cmp.Diff(v.Webhooks, c.validating(t).Webhooks); diff != "" {
		t.Errorf("the API server has completed what must be said (-rendered +stored):\n%s", diff)
	}
	r.ready.Store(false) // what is registered stays
	wait(t, 500*time.Millisecond)
	if n := r.writes.Load(); n != 2 {
		t.Errorf("%d writes in the steady state", n-2)
	}
	if c.mutating(t) == nil {
		t.Error("the registration went with readiness")
	}
	eventually.True(t, "an event says so", func() bool { return strings.Count(c.event(t, "Registered"), "created") == 2 })
}

// With policy Fail, nothing is registered before the Service leads to a ready replica.
func TestFailWaitsForEndpoints(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, func(o *registration.Options, _ *replica) { o.FailurePolicies = []string{"volumes=Fail"} })
	eventually.True(t, "the other kind, with policy Ignore, is registered", func() bool { return c.validating(t) != nil })
	ready := false
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "isthmus-webhook-x", Labels: map[string]string{discoveryv1.LabelServiceName: "isthmus-webhook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	api := c.DiscoveryV1().EndpointSlices("kube-system")
	slice, err := api.Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.Background(), slice.Name, metav1.DeleteOptions{}) })
	eventually.True(t, "an event says what is missing", func() bool { return strings.Contains(c.event(t, "NoEndpoint"), "no ready replica") })
	if c.mutating(t) != nil {
		t.Fatal("registered with policy Fail although the Service leads nowhere")
	}
	ready = true
	slice.Endpoints[0].Conditions.Ready = &ready
	if _, err := api.Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
}

// Whatever somebody does to the configurations is undone.
func TestRepairs(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, nil)
	r.settle(t)
	api := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	extra := c.mutating(t).Webhooks[0].DeepCopy()
	extra.Name = "somebody.example.com"
	extraJSON, err := json.Marshal(extra)
	if err != nil {
		t.Fatal(err)
	}
	good := c.mutating(t)
	for name, patch := range map[string]string{
		"policy":            `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Fail"}]`,
		"selector":          `[{"op":"remove","path":"/webhooks/0/objectSelector"}]`,
		"no webhooks":       `[{"op":"remove","path":"/webhooks"}]`,
		"more webhooks":     `[{"op":"add","path":"/webhooks/-","value":` + string(extraJSON) + `}]`,
		"more conditions":   `[{"op":"add","path":"/webhooks/0/matchConditions/-","value":{"name":"never","expression":"false"}}]`,
		"no labels":         `[{"op":"remove","path":"/metadata/labels"}]`,
		"other CA":          `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":null}]`,
		"cainjector's mark": `[{"op":"add","path":"/metadata/annotations","value":{"cert-manager.io/inject-ca-from":"a/b"}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			r.stop()
			r = c.start(t, nil) // each replica repairs so many times only
			r.settle(t)
			edited, err := api.Patch(t.Context(), registration.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
			if err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "it is repaired", func() bool {
				return cmp.Equal(c.mutating(t).Webhooks, good.Webhooks) && !sameVersion(c, t, edited.ResourceVersion)
			})
			now := c.mutating(t)
			if diff := cmp.Diff(good.Labels, now.Labels); diff != "" {
				t.Errorf("labels differ (-want +got):\n%s", diff)
			}
			if len(now.Annotations) > 0 {
				t.Errorf("annotations %v", now.Annotations)
			}
			r.settle(t)
		})
	}
	t.Run("deleted", func(t *testing.T) {
		r.stop()
		c.start(t, nil).settle(t)
		if err := api.Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "it is there again", func() bool { m := c.mutating(t); return m != nil && cmp.Equal(m.Webhooks, good.Webhooks) })
	})
	eventually.True(t, "an event names who changed it", func() bool { return strings.Contains(c.event(t, "Registered"), "repaired; other writer: kubectl-edit") })
}

func sameVersion(c *cluster, t *testing.T, version string) bool {
	return c.mutating(t).ResourceVersion == version
}

// A configuration of our name that somebody else has made is left alone, loudly.
func TestForeignConfigurationStays(t *testing.T) {
	c := newCluster(t)
	o := registration.NewOptions()
	o.Webhooks = testHooks()
	theirs, _ := registration.Configurations(o, nil)
	theirs.Labels = map[string]string{"app.kubernetes.io/name": "somebody"}
	theirs.Webhooks[0].Name = "somebody.example.com"
	api := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	theirs, err := api.Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := c.start(t, nil)
	eventually.True(t, "an event says so", func() bool { return strings.Contains(c.event(t, "NotOurs"), "was not made by Isthmus") })
	if !r.tells("mutatingwebhookconfiguration/"+registration.Name+" NotOurs ", "was not made by Isthmus") {
		t.Error("the status page does not say so")
	}
	eventually.True(t, "the other kind is registered", func() bool { return r.upToDate(t) == 1 })
	if got := c.mutating(t); got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the configuration was changed: %v", got)
	}
	// Once it is gone, ours takes the name.
	if err := api.Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
}

// What kubectl has applied from the manifests is taken over, and later changes reach all of it.
func TestAdoptsManifests(t *testing.T) {
	c := newCluster(t)
	o := registration.NewOptions()
	o.Webhooks = testHooks()
	fail := admissionregistrationv1.Fail
	shipped, _ := registration.Configurations(o, nil)
	shipped.Webhooks[0].FailurePolicy = &fail
	old := shipped.Webhooks[0].DeepCopy()
	old.Name = "from-an-older-version." + webhooks.Domain
	shipped.Webhooks = append(shipped.Webhooks, *old)
	_, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), shipped, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	if err != nil {
		t.Fatal(err)
	}
	r := c.start(t, func(o *registration.Options, _ *replica) { o.URL = "https://127.0.0.1:1" })
	r.settle(t)
	if got := c.mutating(t).Webhooks; len(got) != 1 || got[0].ClientConfig.URL == nil || *got[0].FailurePolicy != admissionregistrationv1.Ignore || string(got[0].ClientConfig.CABundle) != authority("ca") {
		t.Errorf("webhooks %v", got)
	}
	eventually.True(t, "an event says so", func() bool { return strings.Contains(c.event(t, "Registered"), "adopted") })
	r.stop()
	// Webhooks that are turned off disappear.
	less := c.start(t, func(o *registration.Options, _ *replica) { o.Webhooks = testHooks()[1:] })
	less.settle(t)
	if got := c.mutating(t).Webhooks; len(got) != 0 {
		t.Errorf("webhooks that are turned off are still registered: %v", got)
	}
	if got := c.validating(t).Webhooks; len(got) != 1 {
		t.Errorf("webhooks %v", got)
	}
}

// Replicas that want the same do not disturb each other, and share the work.
func TestReplicasAtOnceWriteOnce(t *testing.T) {
	c := newCluster(t)
	var replicas []*replica
	for range 5 {
		replicas = append(replicas, c.start(t, nil))
	}
	writes := func() (n int64) {
		for _, r := range replicas {
			n += r.settle(t)
		}
		return n
	}
	started := writes()
	if started != 2 {
		t.Errorf("%d writes at the start of 5 replicas, want one for each kind", started)
	}
	if g := c.mutating(t).Generation; g != 1 {
		t.Errorf("the configuration was changed %d times by replicas that want the same", g-1)
	}
	wait(t, 500*time.Millisecond)
	if n := writes(); n != started {
		t.Errorf("%d writes in the steady state", n-started)
	}
	if err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is there again", func() bool { return c.mutating(t) != nil })
	wait(t, 700*time.Millisecond)
	if n := writes() - started; n != 1 {
		t.Errorf("%d writes by 5 replicas to repair one configuration", n)
	}
}

// setPolicy makes a replica want another failure policy than others.
func setPolicy(policy string) func(*registration.Options, *replica) {
	return func(o *registration.Options, _ *replica) {
		o.URL, o.FailurePolicies = "https://127.0.0.1:1", []string{policy}
	}
}

func (c *cluster) policy(t *testing.T) string {
	t.Helper()
	return string(*c.mutating(t).Webhooks[0].FailurePolicy)
}

// During a rollout, the replica that holds the lease writes until it ends, and the others do not
// fight. When the old ones are gone, a new one writes; so a rollback works as well.
func TestHolderDecides(t *testing.T) {
	c := newCluster(t)
	first := c.start(t, setPolicy("Ignore"))
	first.settle(t)
	second, updated := c.start(t, setPolicy("Ignore")), c.start(t, setPolicy("Fail"))
	second.settle(t)
	eventually.True(t, "it says that another one writes", func() bool { return strings.Contains(updated.logged(), "another one writes it") })
	// Deleted meanwhile, it comes back as the holder wants it.
	before := first.writes.Load()
	if err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is there again", func() bool { return c.mutating(t) != nil && first.writes.Load() == before+1 })
	if c.policy(t) != "Ignore" || second.writes.Load() != 0 || updated.writes.Load() != 0 || updated.upToDate(t) != 0 {
		t.Fatalf("the policy is %s, and replicas that do not hold the lease have written %d times", c.policy(t), second.writes.Load()+updated.writes.Load())
	}
	first.stop()
	second.stop()
	updated.settle(t)
	if n := updated.writes.Load(); c.policy(t) != "Fail" || n != 2 {
		t.Errorf("after the rollout, the policy is %s (%d writes)", c.policy(t), n)
	}
	rollback := c.start(t, setPolicy("Ignore"))
	updated.stop()
	rollback.settle(t)
	if c.policy(t) != "Ignore" {
		t.Error("a rollback does not reach the registration")
	}
}

// A replica that does not serve, or does so no more, keeps no other from registering.
func TestHolderThatDoesNotServeLetsGo(t *testing.T) {
	c := newCluster(t)
	broken := c.start(t, func(o *registration.Options, r *replica) { setPolicy("Fail")(o, r); r.ready.Store(false) })
	first := c.start(t, setPolicy("Ignore"))
	first.settle(t)
	broken.ready.Store(true)
	first.ready.Store(false)
	broken.settle(t)
	if c.policy(t) != "Fail" {
		t.Error("a replica that does not serve holds the lease")
	}
}

// Something that never stops changing the configuration is not answered for ever.
func TestFightIsLimited(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, nil)
	r.settle(t)
	api := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	patch := []byte(`[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":1}]`)
	for range 20 {
		if _, err := api.Patch(t.Context(), registration.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "stubborn"}); err != nil {
			t.Fatal(err)
		}
		wait(t, 100*time.Millisecond)
	}
	if n := r.writes.Load(); n > 6 { // 5 of this kind, 1 of the other
		t.Errorf("%d writes against one that does not give in", n)
	}
	eventually.True(t, "an event says so and names it", func() bool { return strings.Contains(c.event(t, "RepairLimited"), "stubborn") })
	if r.upToDate(t) != 1 {
		t.Error("the metric does not show that a configuration is not as wanted")
	}
}
