package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/isthmus-cloud/isthmus/manifests"
)

// checkOfCluster is the check without which there are no others.
const checkOfCluster = "cluster"

// pageSize is how many objects are read at a time.
const pageSize = 500

func checkCluster(ctx context.Context, p *patient) ([]finding, error) {
	if _, err := p.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("the API server: %w", err)
	}
	o := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := p.client.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list Nodes: %w", err)
		}
		p.nodes = append(p.nodes, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			break
		}
	}
	for {
		list, err := p.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("list Services: %w", err)
		}
		p.services = append(p.services, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			return nil, nil
		}
	}
}

// managerLease is the lease of the controller manager that leads, unless --leader-elect-resource-name names another.
const managerLease = "cloud-controller-manager"

func checkManager(ctx context.Context, p *patient) ([]finding, error) {
	object := "lease " + metav1.NamespaceSystem + "/" + managerLease
	lease, err := p.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, managerLease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return []finding{{Severity: isError, Object: object, Message: "no cloud controller manager has led this cluster",
			Next: "look whether its pods run: kubectl -n kube-system get pods; and at their logs; with another --leader-elect-resource-name this is no fault"}}, nil
	case err != nil:
		return nil, err
	}
	if age := p.leaseAge(lease); age > 0 {
		return []finding{{Severity: isError, Object: object, Message: fmt.Sprintf("%q has not renewed it for %s: nobody leads", holder(lease), age.Round(time.Second)),
			Next: "look whether the controller manager's pods run: kubectl -n kube-system get pods; and at their logs"}}, nil
	}
	return nil, nil
}

// leaseAge is how long ago a lease was renewed, 0 where its holder still has it.
func (p *patient) leaseAge(l *coordinationv1.Lease) time.Duration {
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil || holder(l) == "" {
		return max(p.clock.Since(l.CreationTimestamp.Time), 1)
	}
	age := p.clock.Since(l.Spec.RenewTime.Time)
	if age <= 2*time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second { // clocks differ
		return 0
	}
	return age
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// checkPermissions asks the API server whether the controller manager's ServiceAccount may do what the manifests give it.
func checkPermissions(ctx context.Context, p *patient) ([]finding, error) {
	rules, err := managerRules()
	if err != nil {
		return nil, err
	}
	user := "system:serviceaccount:" + manifests.Namespace + ":" + manifests.ServiceAccount
	var lacking []string
	for _, r := range rules {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &r,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + manifests.Namespace, "system:authenticated"}}}
		answer, err := p.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask what %s may do: %w", user, err)
		}
		if !answer.Status.Allowed {
			lacking = append(lacking, strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/"))
		}
	}
	if len(lacking) == 0 {
		return nil, nil
	}
	return []finding{{Severity: isError, Object: "ServiceAccount " + manifests.Namespace + "/" + manifests.ServiceAccount,
		Message: "it may not " + strings.Join(lacking, ", "), Next: "apply the roles that are shipped: manifests/base/rbac.yaml, or helm upgrade"}}, nil
}

// managerRules are the rights of the ClusterRole that the manifests bind to the controller manager, one by one.
func managerRules() (out []authorizationv1.ResourceAttributes, err error) {
	documents, err := manifests.RBAC()
	if err != nil {
		return nil, err
	}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), 4096)
	for {
		var role rbacv1.ClusterRole
		if err := d.Decode(&role); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("manifests/base/rbac.yaml: %w", err)
		}
		if role.Kind != "ClusterRole" || role.Name != manifests.ServiceAccount {
			continue
		}
		for _, r := range role.Rules {
			out = append(out, rights(&r)...)
		}
	}
}

func rights(r *rbacv1.PolicyRule) (out []authorizationv1.ResourceAttributes) {
	for _, group := range r.APIGroups {
		for _, resource := range r.Resources {
			resource, subresource, _ := strings.Cut(resource, "/")
			for _, verb := range r.Verbs {
				out = append(out, authorizationv1.ResourceAttributes{Group: group, Resource: resource, Subresource: subresource, Verb: verb})
			}
		}
	}
	return out
}

// The minor versions of Kubernetes 1 that are supported; see docs/releases.md.
const (
	oldestServer = 30
	newestServer = 38
	// kubeletsBehind is how many minor versions a kubelet may be older than its API server, by Kubernetes' version skew policy.
	kubeletsBehind = 3
)

func checkVersions(_ context.Context, p *patient) ([]finding, error) {
	v, err := p.client.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	server, ok := minor(v.GitVersion)
	if !ok {
		return nil, fmt.Errorf("the API server's version %q is not one of Kubernetes", v.GitVersion)
	}
	var found []finding
	if server < oldestServer || server > newestServer {
		found = append(found, finding{Severity: isWarning, Object: "API server", Message: fmt.Sprintf("version %s; 1.%d to 1.%d are supported", v.GitVersion, oldestServer, newestServer),
			Next: "use the release of Isthmus that supports it"})
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		kubelet, ok := minor(n.Status.NodeInfo.KubeletVersion)
		if ok && (kubelet > server || kubelet < server-kubeletsBehind) {
			found = append(found, finding{Severity: isWarning, Object: "node/" + n.Name,
				Message: fmt.Sprintf("its kubelet is %s, the API server %s: a kubelet may not be newer, nor more than %d minor versions older", n.Status.NodeInfo.KubeletVersion, v.GitVersion, kubeletsBehind),
				Next:    "upgrade the one that is older; see https://kubernetes.io/releases/version-skew-policy/"})
		}
	}
	return found, nil
}

// minor is the minor version of v1.x.
func minor(version string) (int, bool) {
	rest, ok := strings.CutPrefix(version, "v1.")
	if !ok {
		return 0, false
	}
	n, _, _ := strings.Cut(rest, ".")
	m, err := strconv.Atoi(n)
	return m, err == nil
}
