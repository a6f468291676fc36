package apiclient

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

func TestProviderRolesNameWhatTheProviderUses(t *testing.T) {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "ccm"}
	got, err := ProviderRoles([]cloud.KubeObject{
		{Kind: cloud.KubeSecret, Namespace: "kube-system", Name: "credentials"},
		{Kind: cloud.KubeConfigMap, Namespace: "kube-system", Name: "id"},
		{Kind: cloud.KubeConfigMap, Namespace: "kube-system", Name: "id2"},
		{Kind: cloud.KubeSecret, Namespace: "other", Name: "more"},
	}, account)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for line := range strings.SplitSeq(string(got), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "- ") && line != `- ""` || strings.HasPrefix(line, "namespace:") || strings.HasPrefix(line, "kind: Role") {
			rules = append(rules, strings.TrimPrefix(line, "- "))
		}
	}
	want := "kind: Role|namespace: kube-system|apiGroups:|credentials|secrets|get|list|watch|apiGroups:|id|configmaps|get|apiGroups:|configmaps|create|apiGroups:|id2|configmaps|get|" +
		"kind: RoleBinding|namespace: kube-system|kind: Role|kind: ServiceAccount|namespace: kube-system|" +
		"kind: Role|namespace: other|apiGroups:|more|secrets|get|list|watch|kind: RoleBinding|namespace: other|kind: Role|kind: ServiceAccount|namespace: kube-system"
	if diff := cmp.Diff(strings.Split(want, "|"), rules); diff != "" {
		t.Errorf("roles (-want +got):\n%s\n%s", diff, got)
	}
	if _, err := ProviderRoles([]cloud.KubeObject{{Kind: "Pod", Namespace: "a", Name: "b"}}, account); err == nil {
		t.Error("a provider may use a Pod")
	}
}

// OpenStack reads files: it gets no right for it.
func TestProviderThatUsesNothingOfTheClusterGetsNoRole(t *testing.T) {
	if got, err := ProviderRoles(nil, rbacv1.Subject{}); err != nil || len(got) > 0 {
		t.Errorf("%s, %v", got, err)
	}
}
