package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// defaultAccount is the one that the manifests have.
func defaultAccount() string { return manifests.Namespace + "/" + manifests.ServiceAccount }

// part are rights that are given together, and what to apply where they are missing.
type part struct {
	// optional are not missing where none of them is given: what they are for is not installed.
	optional bool
	rights   []authorizationv1.ResourceAttributes
	next     string
}

// checkPermissions asks the API server whether the controller manager's ServiceAccount may do what the manifests give it.
func checkPermissions(ctx context.Context, p *patient) (found []output.Finding, err error) {
	_, err = p.client.CoreV1().ServiceAccounts(p.account.Namespace).Get(ctx, p.account.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return []output.Finding{{Severity: output.Error, Object: "ServiceAccount " + p.account.String(), Message: "it does not exist",
			Next: "apply the manifests or the chart; where the controller manager runs as another, name that with --service-account=NAMESPACE/NAME"}}, nil
	case err != nil: // who may not read it may ask about it all the same
		p.unseen = append(p.unseen, "whether ServiceAccount "+p.account.String()+" exists: "+err.Error())
	}
	parts, err := p.parts()
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		var lacking []authorizationv1.ResourceAttributes
		for i := range part.rights {
			may, err := p.may(ctx, &part.rights[i])
			if apierrors.IsForbidden(err) {
				return append(found, output.Finding{Severity: output.Unchecked, Object: "ServiceAccount " + p.account.String(), Message: "what it may do cannot be asked: " + err.Error(),
					Next: "call doctor as a user who may create subjectaccessreviews.authorization.k8s.io, or leave the check out with --skip=permissions"}), nil
			}
			if err != nil {
				return found, access.Failed(ctx, p.client, "ask what "+p.account.String()+" may do", err)
			}
			if !may {
				lacking = append(lacking, part.rights[i])
			}
		}
		if len(lacking) == 0 || part.optional && len(lacking) == len(part.rights) {
			continue
		}
		found = append(found, output.Finding{Severity: output.Error, Object: "ServiceAccount " + p.account.String(), Message: "it may not " + describe(lacking), Next: part.next})
	}
	return found, nil
}

// may asks the API server.
func (p *patient) may(ctx context.Context, r *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: r,
		User: "system:serviceaccount:" + p.account.Namespace + ":" + p.account.Name, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.account.Namespace, "system:authenticated"}}}
	answer, err := p.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}

// describe names rights, those to one thing together: "get, list nodes; get secrets x in kube-system".
func describe(rights []authorizationv1.ResourceAttributes) string {
	var things []string
	verbs := map[string][]string{}
	for i := range rights {
		r := &rights[i]
		thing := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
		if r.Name != "" {
			thing += " " + r.Name
		}
		if r.Namespace != "" {
			thing += " in " + r.Namespace
		}
		if verbs[thing] == nil {
			things = append(things, thing)
		}
		verbs[thing] = append(verbs[thing], r.Verb)
	}
	for i, thing := range things {
		things[i] = strings.Join(verbs[thing], ", ") + " " + thing
	}
	return strings.Join(things, "; ")
}

// parts are the rights that ship, and those to what the cloud's provider uses of the cluster.
func (p *patient) parts() (out []part, err error) {
	for _, x := range []struct {
		file     string
		read     func() ([]byte, error)
		optional bool
	}{
		{"manifests/base/rbac.yaml", manifests.RBAC, false},
		{"manifests/components/webhook-auto/rbac.yaml", manifests.RegistrationRBAC, true},
		{"manifests/components/webhook-self-managed/rbac.yaml", manifests.SelfManagedRBAC, true},
	} {
		documents, err := x.read()
		if err != nil {
			return nil, err
		}
		rights, err := rightsIn(documents)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.file, err)
		}
		if x.optional { // what the controllers have anyhow tells nothing about what is installed
			rights = slices.DeleteFunc(rights, func(r authorizationv1.ResourceAttributes) bool { return covered(&r, out[0].rights) })
		}
		out = append(out, part{rights: rights, optional: x.optional, next: "apply the roles that are shipped: " + x.file + ", or helm upgrade"})
	}
	if p.cloud != nil && len(p.cloud.KubeObjects) > 0 {
		out = append(out, part{rights: rightsTo(p.cloud.KubeObjects), next: "give it a Role to what cloud.conf names: manifests/components/provider-objects/rbac.yaml, or the chart's values"})
	}
	return out, nil
}

// covered reports whether a right is among others.
func covered(r *authorizationv1.ResourceAttributes, by []authorizationv1.ResourceAttributes) bool {
	return slices.ContainsFunc(by, func(b authorizationv1.ResourceAttributes) bool {
		return b.Verb == r.Verb && b.Group == r.Group && b.Resource == r.Resource && b.Subresource == r.Subresource &&
			(b.Namespace == "" || b.Namespace == r.Namespace) && (b.Name == "" || b.Name == r.Name)
	})
}

// rightsTo are the rights to objects that a provider uses.
func rightsTo(objects []cloud.KubeObject) (out []authorizationv1.ResourceAttributes) {
	for _, o := range objects {
		verbs, resource := []string{"get"}, "configmaps"
		if o.Kind == cloud.KubeSecret {
			verbs, resource = []string{"get", "list", "watch"}, "secrets"
		}
		for _, verb := range verbs {
			out = append(out, authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: o.Namespace, Name: o.Name})
		}
		if o.Kind == cloud.KubeConfigMap {
			out = append(out, authorizationv1.ResourceAttributes{Verb: "create", Resource: resource, Namespace: o.Namespace})
		}
	}
	return out
}

// rightsIn are the rights of all roles among documents, one by one.
func rightsIn(documents []byte) (out []authorizationv1.ResourceAttributes, err error) {
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same fields, and no namespace
		if err := d.Decode(&role); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		for i := range role.Rules {
			for _, r := range rights(&role.Rules[i]) {
				r.Namespace = role.Namespace
				out = append(out, r)
			}
		}
	}
}

func rights(r *rbacv1.PolicyRule) (out []authorizationv1.ResourceAttributes) {
	names := r.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			resource, subresource, _ := strings.Cut(resource, "/")
			for _, verb := range r.Verbs {
				for _, name := range names {
					out = append(out, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: subresource, Verb: verb, Name: name})
				}
			}
		}
	}
	return out
}
