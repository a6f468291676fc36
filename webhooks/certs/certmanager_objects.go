package certs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
)

const (
	// ownerLabel with ownerValue marks the objects that are ours.
	ownerLabel   = "app.kubernetes.io/managed-by"
	ownerValue   = "isthmus-webhook-certs"
	fieldManager = ownerValue

	// cmCALifetime is long, as the CA keeps its key: its renewal changes nothing for anybody.
	cmCALifetime = 10 * 365 * 24 * time.Hour
)

// cmObjects are cert-manager's objects of one certificate: the Certificate and, without an
// issuer of the user's, a self-signed Issuer, the Certificate of a CA and the CA's Issuer.
type cmObjects struct {
	client dynamic.Interface
	name   types.NamespacedName
	issuer cmmeta.IssuerReference
	hosts  []string
}

// waitingError says what cert-manager is still busy with.
type waitingError struct{ object, state string }

func (e *waitingError) Error() string {
	return fmt.Sprintf("cert-manager has not issued it yet: %s: %s", e.object, e.state)
}

var (
	certificates = certmanagerv1.SchemeGroupVersion.WithResource("certificates")
	issuers      = certmanagerv1.SchemeGroupVersion.WithResource("issuers")
)

// wanted returns the objects, each after those that it needs.
func (c *cmObjects) wanted() []runtime.Object {
	meta := func(suffix string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: c.name.Name + suffix, Namespace: c.name.Namespace, Labels: map[string]string{ownerLabel: ownerValue}}
	}
	names, ips := splitHosts(c.hosts)
	leaf := &certmanagerv1.Certificate{ObjectMeta: meta(""), Spec: certmanagerv1.CertificateSpec{
		SecretName: c.name.Name, DNSNames: names, IssuerRef: c.issuer,
		Usages:     []certmanagerv1.KeyUsage{certmanagerv1.UsageDigitalSignature, certmanagerv1.UsageServerAuth},
		PrivateKey: &certmanagerv1.CertificatePrivateKey{Algorithm: certmanagerv1.ECDSAKeyAlgorithm, Size: 256, RotationPolicy: certmanagerv1.RotationPolicyAlways},
	}}
	for _, ip := range ips {
		leaf.Spec.IPAddresses = append(leaf.Spec.IPAddresses, ip.String())
	}
	if c.issuer.Name != "" {
		return []runtime.Object{leaf}
	}
	group := certmanagerv1.SchemeGroupVersion.Group
	root := &certmanagerv1.Issuer{ObjectMeta: meta("-selfsigned")}
	root.Spec.SelfSigned = &certmanagerv1.SelfSignedIssuer{}
	ca := &certmanagerv1.Certificate{ObjectMeta: meta("-ca"), Spec: certmanagerv1.CertificateSpec{
		SecretName: c.name.Name + "-ca", CommonName: "isthmus-webhook-ca", IsCA: true, Duration: &metav1.Duration{Duration: cmCALifetime},
		IssuerRef:  cmmeta.IssuerReference{Name: root.Name, Kind: "Issuer", Group: group},
		PrivateKey: &certmanagerv1.CertificatePrivateKey{Algorithm: certmanagerv1.ECDSAKeyAlgorithm, Size: 256, RotationPolicy: certmanagerv1.RotationPolicyNever},
	}}
	issuer := &certmanagerv1.Issuer{ObjectMeta: meta("-ca")}
	issuer.Spec.CA = &certmanagerv1.CAIssuer{SecretName: ca.Spec.SecretName}
	leaf.Spec.IssuerRef = cmmeta.IssuerReference{Name: issuer.Name, Kind: "Issuer", Group: group}
	return []runtime.Object{root, ca, issuer, leaf}
}

// ensure brings the objects to what they must be.
func (c *cmObjects) ensure(ctx context.Context) error {
	for _, obj := range c.wanted() {
		if err := c.apply(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// apply creates or repairs one object, unless it is somebody else's.
func (c *cmObjects) apply(ctx context.Context, obj runtime.Object) error {
	u, resource, err := toUnstructured(obj)
	if err != nil {
		return err
	}
	object := describe(u)
	client := c.client.Resource(resource).Namespace(u.GetNamespace())
	existing, err := client.Get(ctx, u.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read %s: %w%s", object, err, nextStep(err))
	}
	if err == nil {
		if existing.GetLabels()[ownerLabel] != ownerValue {
			return fmt.Errorf("%s exists and is not ours: it lacks the label %s=%s; delete it, or name another Secret with --webhook-cert-secret", object, ownerLabel, ownerValue)
		}
		if err := keepHosts(u, existing); err != nil {
			return fmt.Errorf("%s: %w", object, err)
		}
		if equality.Semantic.DeepDerivative(u.Object["spec"], existing.Object["spec"]) {
			return nil
		}
		u.SetResourceVersion(existing.GetResourceVersion()) // ours, as it was seen
	}
	_, err = client.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: fieldManager, Force: existing != nil && existing.GetResourceVersion() != ""})
	switch {
	case err == nil:
		klog.FromContext(ctx).Info("Applied object of cert-manager", "object", object)
		return nil
	case apierrors.IsConflict(err):
		return &waitingError{object, "somebody else has just changed it"}
	case apierrors.IsNotFound(err) && !strings.Contains(err.Error(), "namespaces"):
		return fmt.Errorf("apply %s: the cluster does not know cert-manager's kinds; install cert-manager, or choose another --webhook-cert-source", object)
	}
	return fmt.Errorf("apply %s: %w%s", object, err, nextStep(err))
}

// keepHosts adds the hosts of a Certificate to those of the one that is to replace it:
// replicas with other flags would take turns otherwise.
func keepHosts(wanted, existing *unstructured.Unstructured) error {
	for _, field := range []string{"dnsNames", "ipAddresses"} {
		old, _, err := unstructured.NestedStringSlice(existing.Object, "spec", field)
		if err != nil {
			return err
		}
		hosts, _, err := unstructured.NestedStringSlice(wanted.Object, "spec", field)
		if err != nil {
			return err
		}
		for _, host := range hosts {
			if !slices.Contains(old, host) {
				old = append(old, host)
			}
		}
		if len(old) == 0 {
			continue
		}
		if err := unstructured.SetNestedStringSlice(wanted.Object, old, "spec", field); err != nil {
			return err
		}
	}
	return nil
}

// waiting says which object cert-manager is not done with; nil when it is with all.
func (c *cmObjects) waiting(ctx context.Context) error {
	for _, obj := range c.wanted() {
		u, resource, err := toUnstructured(obj)
		if err != nil {
			return err
		}
		object := describe(u)
		existing, err := c.client.Resource(resource).Namespace(u.GetNamespace()).Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read %s: %w%s", object, err, nextStep(err))
		}
		if state := unready(existing); state != "" {
			return &waitingError{object, state}
		}
	}
	return nil
}

// unready returns what the conditions of a Certificate or Issuer say unless it is ready.
func unready(u *unstructured.Unstructured) string {
	conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil || len(conditions) == 0 {
		return "cert-manager has not looked at it yet: is its controller running?"
	}
	var states []string
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == "Ready" && condition["status"] == "True" {
			return ""
		}
		states = append(states, fmt.Sprintf("%v=%v, %v: %v", condition["type"], condition["status"], condition["reason"], condition["message"]))
	}
	return strings.Join(states, "; ")
}

func describe(u *unstructured.Unstructured) string {
	return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
}

// toUnstructured returns what of obj is ours to say.
func toUnstructured(obj runtime.Object) (*unstructured.Unstructured, schema.GroupVersionResource, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, schema.GroupVersionResource{}, err
	}
	u := &unstructured.Unstructured{Object: content}
	kind, resource := certmanagerv1.CertificateKind, certificates
	if _, ok := obj.(*certmanagerv1.Issuer); ok {
		kind, resource = certmanagerv1.IssuerKind, issuers
	}
	u.SetGroupVersionKind(certmanagerv1.SchemeGroupVersion.WithKind(kind))
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, resource, nil
}

// splitIssuer reads [KIND[.GROUP]/]NAME over the defaults in ref.
func splitIssuer(text string, ref *cmmeta.IssuerReference) bool {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		kind, name = "", text
	}
	if found && kind == "" || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false
	}
	if found {
		ref.Kind = kind
	}
	if k, group, ok := strings.Cut(kind, "."); ok {
		ref.Kind, ref.Group = k, group
		return k != "" && len(validation.IsDNS1123Subdomain(group)) == 0
	}
	return true
}
