package apiclient

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/yaml"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// kube implements cloud.Kube.
type kube struct{ client kubernetes.Interface }

var _ cloud.Kube = kube{}

// NewKube returns what a provider gets of the cluster.
func NewKube(client kubernetes.Interface) cloud.Kube { return kube{client} }

// WatchSecret implements cloud.Kube.
func (k kube) WatchSecret(ctx context.Context, namespace, name string, on func(map[string][]byte)) error {
	var version string
	secret, err := k.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		version = secret.ResourceVersion
		on(secret.Data)
	case apierrors.IsNotFound(err):
		on(nil)
	default:
		return fmt.Errorf("read Secret %s/%s, which the cloud's configuration names: %w", namespace, name, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(k.client, 0, informers.WithNamespace(namespace),
		informers.WithTransform(crcache.TransformStripManagedFields()), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	seen := func(obj any) {
		if s, ok := obj.(*corev1.Secret); ok && s.ResourceVersion != version {
			version = s.ResourceVersion
			on(s.Data)
		}
	}
	if _, err := factory.Core().V1().Secrets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, now any) { seen(now) },
		DeleteFunc: func(any) {
			version = ""
			on(nil)
		},
	}); err != nil {
		return fmt.Errorf("watch Secret %s/%s: %w", namespace, name, err)
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// ConfigMap implements cloud.Kube.
func (k kube) ConfigMap(ctx context.Context, namespace, name string, initial map[string]string) (map[string]string, error) {
	maps := k.client.CoreV1().ConfigMaps(namespace)
	found, err := maps.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: initial}
		found, err = maps.Create(ctx, made, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // another replica was quicker
			found, err = maps.Get(ctx, name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s, which the cloud's configuration names: %w", namespace, name, err)
	}
	return found.Data, nil
}

// ProviderRoles returns the roles that a provider's use of the cluster takes, with their bindings to
// account, as YAML documents: none for a provider that uses nothing of it. Each object has its own name in
// a rule, but for creation, where RBAC knows none.
func ProviderRoles(objects []cloud.KubeObject, account rbacv1.Subject) ([]byte, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	var namespaces []string
	for _, o := range objects {
		resource, verbs := "secrets", []string{"get", "list", "watch"}
		if o.Kind == cloud.KubeConfigMap {
			resource, verbs = "configmaps", []string{"get"}
		} else if o.Kind != cloud.KubeSecret {
			return nil, fmt.Errorf("%s %s/%s: providers may use a %s or a %s", o.Kind, o.Namespace, o.Name, cloud.KubeSecret, cloud.KubeConfigMap)
		}
		if _, ok := rules[o.Namespace]; !ok {
			namespaces = append(namespaces, o.Namespace)
		}
		rules[o.Namespace] = append(rules[o.Namespace], rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{o.Name}, Verbs: verbs})
		create := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"create"}}
		if o.Kind == cloud.KubeConfigMap && !slices.ContainsFunc(rules[o.Namespace], func(r rbacv1.PolicyRule) bool { return slices.Equal(r.Verbs, create.Verbs) }) {
			rules[o.Namespace] = append(rules[o.Namespace], create)
		}
	}
	var out bytes.Buffer
	for _, namespace := range namespaces {
		meta := metav1.ObjectMeta{Name: providerRole, Namespace: namespace}
		version := rbacv1.SchemeGroupVersion.String()
		for _, o := range []any{
			rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "Role"}, ObjectMeta: meta, Rules: rules[namespace]},
			rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: "RoleBinding"}, ObjectMeta: meta,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: providerRole}, Subjects: []rbacv1.Subject{account}},
		} {
			text, err := yaml.Marshal(o)
			if err != nil {
				return nil, fmt.Errorf("roles of the provider: %w", err)
			}
			out.WriteString("---\n")
			out.Write(text)
		}
	}
	return out.Bytes(), nil
}

// providerRole is the name of the roles that ProviderRoles makes.
const providerRole = "isthmus-cloud-controller-manager:provider"
