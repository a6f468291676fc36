package rbacaudit_test

import (
	"strings"
	"testing"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/rbacaudit"
)

const roles = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes}
rules:
  - {apiGroups: [""], resources: [nodes, nodes/status], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: lease, namespace: kube-system}
rules:
  - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [one, two], verbs: [update]}
`

// Each part of each rule needs a request of one of the users, and each of their requests a rule.
func TestCompare(t *testing.T) {
	node := func(user, verb, sub string, allowed bool) controlplane.Request {
		return controlplane.Request{User: user, Verb: verb, Resource: "nodes", Subresource: sub, Name: "n", Allowed: allowed}
	}
	lease := func(namespace, name string) controlplane.Request {
		return controlplane.Request{User: "a", Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Name: name, Allowed: true}
	}
	all := []controlplane.Request{
		node("a", "get", "", true), node("b", "patch", "", true), node("a", "get", "status", true), node("a", "patch", "status", true),
		lease("kube-system", "one"), lease("kube-system", "two"), node("stranger", "delete", "", false),
	}
	users := []string{"a", "b"}
	if err := rbacaudit.Compare([]byte(roles), users, all); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		change func(r []controlplane.Request) []controlplane.Request
		want   string
	}{
		"refused": {func(r []controlplane.Request) []controlplane.Request {
			return append(r, node("b", "delete", "", false))
		},
			"missing: b was not allowed to delete nodes n"},
		"not asked for":     {func(r []controlplane.Request) []controlplane.Request { return r[1:] }, "unused: ClusterRole nodes allows to get nodes"},
		"only by strangers": {func(r []controlplane.Request) []controlplane.Request { r[1].User = "stranger"; return r }, "unused: ClusterRole nodes allows to patch nodes"},
		"only refused": {func(r []controlplane.Request) []controlplane.Request { r[3].Allowed = false; return r },
			"missing: a was not allowed to patch nodes/status n\nunused: ClusterRole nodes allows to patch nodes/status"},
		"another name": {func(r []controlplane.Request) []controlplane.Request { r[5].Name = "three"; return r },
			"unused: Role lease allows to update leases.coordination.k8s.io two in kube-system"},
		"another namespace": {func(r []controlplane.Request) []controlplane.Request { r[4].Namespace = "default"; return r },
			"unused: Role lease allows to update leases.coordination.k8s.io one in kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			err := rbacaudit.Compare([]byte(roles), users, tt.change(append([]controlplane.Request(nil), all...)))
			if err == nil {
				t.Fatal("no error")
			}
			if _, got, _ := strings.Cut(err.Error(), "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
