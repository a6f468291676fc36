package registration_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

func removing(o *registration.Options, _ *replica) {
	o.Mode, o.Ready, o.CABundle, o.Webhooks = registration.Remove, nil, nil, nil
}

// What is ours goes once the replicas that keep it have ended, and stays away.
func TestRemove(t *testing.T) {
	c := newCluster(t)
	old := c.start(t, nil)
	old.settle(t)
	remover := c.start(t, removing)
	eventually.True(t, "it says that another one writes", func() bool { return strings.Contains(remover.logged(), "another one writes it") })
	if c.mutating(t) == nil || remover.writes.Load() != 0 {
		t.Error("what another replica keeps was removed")
	}
	old.stop()
	gone := func() bool { return c.mutating(t) == nil && c.validating(t) == nil }
	eventually.True(t, "the configurations are gone", gone)
	remover.settle(t)
	// One of before that is started again does not write: it does not hold the lease.
	restarted := c.start(t, nil)
	eventually.True(t, "it says that another one writes", func() bool { return strings.Contains(restarted.logged(), "another one writes it") })
	if n := remover.writes.Load(); n != 2 || restarted.writes.Load() != 0 || !gone() {
		t.Errorf("%d removals, %d writes of a replica that was started later", n, restarted.writes.Load())
	}
	// From remove back to auto.
	remover.stop()
	restarted.settle(t)
}

// What was made anew since it was looked at is not removed.
func TestRemoveLeavesWhatIsNew(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, nil)
	r.settle(t)
	r.stop()
	api := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	theirs := c.mutating(t)
	theirs.ObjectMeta = metav1.ObjectMeta{Name: registration.Name}
	var once sync.Once
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return before(func(req *http.Request) func() {
			if req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "mutating") {
				once.Do(func() {
					if err := api.Delete(t.Context(), registration.Name, metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
					if _, err := api.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
						t.Error(err)
					}
				})
			}
			return nil
		}, next)
	})
	if err := registration.Away(t.Context(), r.client(t, config)); err == nil || !strings.Contains(err.Error(), "was not made by Isthmus") {
		t.Errorf("with a configuration that was made anew: %v", err)
	}
	if c.mutating(t) == nil {
		t.Error("a configuration was removed that was made after the look at it")
	}
	if c.validating(t) != nil {
		t.Error("the other one was not removed")
	}
}

// Removing once ends, says what it left, and does not touch what is not ours.
func TestRemoveOnce(t *testing.T) {
	c := newCluster(t)
	if err := registration.Away(t.Context(), c); err != nil {
		t.Fatalf("with nothing to remove: %v", err)
	}
	r := c.start(t, nil)
	r.settle(t)
	r.stop()
	if err := registration.Away(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if c.mutating(t) != nil || c.validating(t) != nil {
		t.Error("a configuration is left")
	}
	theirs, _ := registration.Configurations(registration.NewOptions(), nil)
	theirs.Labels = nil
	if _, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := registration.Away(t.Context(), c); err == nil || !strings.Contains(err.Error(), "was not made by Isthmus") {
		t.Errorf("with somebody else's configuration: %v", err)
	}
	remover := c.start(t, removing)
	eventually.True(t, "an event says so", func() bool { return strings.Contains(c.event(t, "NotOurs"), "was not made by Isthmus") })
	if c.mutating(t) == nil || remover.writes.Load() != 0 {
		t.Error("somebody else's configuration was removed")
	}
}

// Without the rights, one error says which; with exactly those, it works.
func TestMissingRights(t *testing.T) {
	c := newCluster(t)
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "registrar"}}
	t.Cleanup(func() {
		ctx, o := context.Background(), metav1.DeleteOptions{}
		if err := errors.Join(c.CoreV1().ServiceAccounts("default").Delete(ctx, sa.Name, o), c.RbacV1().ClusterRoleBindings().Delete(ctx, "registrar", o),
			c.RbacV1().ClusterRoles().Delete(ctx, "registrar", o), c.RbacV1().Roles("kube-system").Delete(ctx, "registrar", o),
			c.RbacV1().RoleBindings("kube-system").Delete(ctx, "registrar", o)); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), sa, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := thePlane.Plane(t).ServiceAccountConfig(t.Context(), "default", sa.Name, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r := c.start(t, func(o *registration.Options, r *replica) { o.Client = r.client(t, config) })
	eventually.True(t, "the log says what is missing", func() bool { return strings.Contains(r.logged(), "MutatingWebhookConfiguration isthmus: ") })
	if !r.tells("mutatingwebhookconfiguration/"+registration.Name+" RegistrationFailed ", registration.Rule) {
		t.Error("the status page does not say what is missing")
	}
	if log := r.logged(); !strings.Contains(log, "manifests/components/webhook-auto") || !strings.Contains(log, registration.Rule) {
		t.Errorf("the log does not say what to do:\n%s", log)
	}
	wait(t, time.Second)
	if n := strings.Count(r.logged(), "could not be registered"); n > 2 { // one a kind
		t.Errorf("the same is logged %d times:\n%s", n, r.logged())
	}
	// The rule that the message names is enough.
	var rule rbacv1.PolicyRule
	if err := yaml.UnmarshalStrict([]byte(registration.Rule), &rule); err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "registrar"}, Rules: []rbacv1.PolicyRule{rule}}
	if _, err := c.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	lease := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "registrar", Namespace: "kube-system"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"}}}}
	if _, err := c.RbacV1().Roles("kube-system").Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: sa.Name, Namespace: "default"}}
	if _, err := c.RbacV1().RoleBindings("kube-system").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: lease.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: lease.Name}, Subjects: subjects,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "registrar"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: subjects,
	}
	if _, err := c.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if err := registration.Away(t.Context(), r.client(t, config)); err != nil {
		t.Errorf("remove with the same rights: %v", err)
	}
}

// A replica that starts where all is as it wants it writes nothing.
func TestRestartWritesNothing(t *testing.T) {
	c := newCluster(t)
	r := c.start(t, nil)
	n := r.settle(t)
	r.stop()
	if !strings.Contains(r.logged(), "Webhooks registered") {
		t.Errorf("the log does not say what was registered:\n%s", r.logged())
	}
	again := c.start(t, nil)
	if got := again.settle(t); got != 0 {
		t.Errorf("a restarted replica wrote %d times (the first %d times)", got, n)
	}
}
