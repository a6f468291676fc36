// Package rbacaudit compares roles with what was asked for, as kube-apiserver's audit log has it.
package rbacaudit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// Compare returns what is wrong with the roles in YAML documents, which the users have: each request
// of theirs that was refused, and each part of a role that no request has needed.
func Compare(documents []byte, users []string, requests []controlplane.Request) error {
	roles, err := read(documents)
	if err != nil {
		return err
	}
	var problems []string
	var allowed []controlplane.Request
	for _, r := range requests {
		switch {
		case !slices.Contains(users, r.User):
		case r.Allowed:
			allowed = append(allowed, r)
		default:
			problems = append(problems, fmt.Sprintf("missing: %s was not allowed to %s", r.User, describe(r)))
		}
	}
	for _, role := range roles {
		for _, part := range parts(role) {
			if !slices.ContainsFunc(allowed, func(r controlplane.Request) bool { return covers(part, r) }) {
				problems = append(problems, fmt.Sprintf("unused: %s %s allows to %s", role.Kind, role.Name, describe(part)))
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return fmt.Errorf("roles and requests differ:\n%s", strings.Join(problems, "\n"))
}

// read returns the roles in YAML documents; those of namespaces and those of the cluster look alike.
func read(documents []byte) ([]rbacv1.Role, error) {
	var roles []rbacv1.Role
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents))); ; {
		document, err := r.Read()
		if errors.Is(err, io.EOF) {
			return roles, nil
		}
		var role rbacv1.Role
		if err == nil {
			err = yaml.Unmarshal(document, &role)
		}
		if err != nil {
			return nil, fmt.Errorf("read roles: %w", err)
		}
		if role.Kind == "Role" || role.Kind == "ClusterRole" {
			roles = append(roles, role)
		}
	}
}

// parts are the requests that a role allows, without namespace and name where all are meant.
func parts(role rbacv1.Role) []controlplane.Request {
	var out []controlplane.Request
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, path := range rule.Resources {
				resource, subresource, _ := strings.Cut(path, "/")
				for _, verb := range rule.Verbs {
					for _, name := range names {
						out = append(out, controlplane.Request{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: role.Namespace, Name: name})
					}
				}
			}
		}
	}
	return out
}

// covers reports whether a role with part is what r takes.
func covers(part, r controlplane.Request) bool {
	return part.Verb == r.Verb && part.Group == r.Group && part.Resource == r.Resource && part.Subresource == r.Subresource &&
		(part.Namespace == "" || part.Namespace == r.Namespace) && (part.Name == "" || part.Name == r.Name)
}

func describe(r controlplane.Request) string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}
