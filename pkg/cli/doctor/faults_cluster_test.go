package doctor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
)

// faultsOfInstallation are of what was installed into the cluster.
var faultsOfInstallation = []fault{
	{name: "the lease may not be renewed", check: "permissions", object: manifests.ServiceAccount, message: "update leases cloud-controller-manager in kube-system", code: 1, cluster: func(s *set) {
		s.roleWithout(manifests.Namespace, manifests.ServiceAccount, "update")
	}},
	{name: "the UID of the cluster may not be read", check: "permissions", object: manifests.ServiceAccount, message: "get namespaces kube-system", code: 1, cluster: func(s *set) {
		roles, name := s.Client.RbacV1().ClusterRoles(), manifests.ServiceAccount+":cluster-uid"
		role, err := roles.Get(s.t.Context(), name, metav1.GetOptions{})
		s.must(err)
		rules := role.Rules
		role.Rules = nil
		role, err = roles.Update(s.t.Context(), role, metav1.UpdateOptions{})
		s.must(err)
		s.undo(func(ctx context.Context) error {
			role.Rules = rules
			_, err := roles.Update(ctx, role, metav1.UpdateOptions{})
			return err
		})
	}},
	{name: "the ServiceAccount does not exist", check: "permissions", object: "ServiceAccount kube-system/nobody", message: "it does not exist", code: 1, args: func(*set) []string {
		return []string{"--service-account", "kube-system/nobody"}
	}},
	{name: "a part of the rights to register webhooks is missing", check: "permissions", object: manifests.ServiceAccount, message: "delete mutatingwebhookconfigurations isthmus", code: 1, cluster: func(s *set) {
		rbac, err := manifests.RegistrationRBAC()
		s.must(err)
		s.must(s.Apply(s.t.Context(), rbac))
		const name = "isthmus-webhook-registration"
		s.must(s.Client.RbacV1().ClusterRoleBindings().Delete(s.t.Context(), name, metav1.DeleteOptions{}))
		s.undo(func(ctx context.Context) error {
			return s.Client.RbacV1().RoleBindings(manifests.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		})
		s.undo(func(ctx context.Context) error {
			return s.Client.RbacV1().RoleBindings("default").Delete(ctx, "isthmus-webhook-events", metav1.DeleteOptions{})
		})
	}},
	{name: "the Secret of cloud.conf may not be read", only: onVSphere, check: "permissions", object: manifests.ServiceAccount, message: "watch secrets elsewhere in kube-system", code: 1,
		conf: instead("global:\n", "global:\n  secretName: elsewhere\n  secretNamespace: kube-system\n")},
	{name: "the controller manager is older than isthmus", check: "versions", object: "pod/kube-system/old", message: "it is v1.1.4, and this isthmus v1.2.0", code: 0, cluster: func(s *set) { s.pod("old", "v1.1.4", "") }},
	{name: "pods of the controller manager differ", check: "versions", object: "controller manager", message: "v1.2.0, v1.2.1", code: 0, cluster: func(s *set) {
		s.pod("one", "v1.2.0", "")
		s.pod("two", "v1.2.1@sha256:0123", "")
	}},
	{name: "the chart is for another version", check: "versions", object: "pod/kube-system/pinned", message: "the chart that made it is for v1.3.0", code: 0, cluster: func(s *set) { s.pod("pinned", "v1.2.0", "v1.3.0") }},
}

// roleWithout takes a verb from the first rule of a Role until the test ends.
func (s *set) roleWithout(namespace, name, verb string) {
	roles := s.Client.RbacV1().Roles(namespace)
	edit := func(ctx context.Context, change func(*rbacv1.PolicyRule)) error {
		role, err := roles.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&role.Rules[0])
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		return err
	}
	s.must(edit(s.t.Context(), func(r *rbacv1.PolicyRule) {
		r.Verbs = slices.DeleteFunc(r.Verbs, func(v string) bool { return v == verb })
	}))
	s.undo(func(ctx context.Context) error {
		return edit(ctx, func(r *rbacv1.PolicyRule) { r.Verbs = append(r.Verbs, verb) })
	})
}

// pod is one of the controller manager's until the test ends.
func (s *set) pod(name, tag, chart string) {
	pods := s.Client.CoreV1().Pods(manifests.Namespace)
	labels := map[string]string{"app.kubernetes.io/name": "isthmus", "app.kubernetes.io/component": "cloud-controller-manager"}
	if chart != "" {
		labels["app.kubernetes.io/version"] = chart
	}
	_, err := pods.Create(s.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
		ServiceAccountName: manifests.ServiceAccount, Containers: []corev1.Container{{Name: "cloud-controller-manager", Image: "registry.example:5000/isthmus/cloud-controller-manager:" + tag}}}}, metav1.CreateOptions{})
	s.must(err)
	now := int64(0)
	s.undo(func(ctx context.Context) error {
		return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
}
