package registration

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

const (
	// Name is the name of both configurations.
	Name = "isthmus"
	// FieldManager is under which name the API server knows what is written here.
	FieldManager = "isthmus-webhook-registration"

	nameLabel = "app.kubernetes.io/name"
	// namespaceLabel is the label that the API server gives every namespace: its name.
	namespaceLabel = "kubernetes.io/metadata.name"
	// optedOut is the value of opt-out labels.
	optedOut = "true"

	injectAnnotation = "cert-manager.io/inject-ca-from"
)

// Configurations returns what is registered for o, with the CAs to trust. Every field that
// the API server would fill in is set.
func Configurations(o *Options, caBundle []byte) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	m, v := render(o, webhooks.Mutating), render(o, webhooks.Validating)
	if !injected(m) {
		trusting(m, sets.New(string(caBundle)))
		trusting(v, sets.New(string(caBundle)))
	}
	return m, converted(v, &admissionregistrationv1.ValidatingWebhookConfiguration{})
}

// configuration stands for both kinds: a validating one has no reinvocation policies, and
// is the same otherwise.
type configuration = admissionregistrationv1.MutatingWebhookConfiguration

// render returns what is registered, but for the CAs.
func render(o *Options, kind webhooks.Type) *configuration {
	c := &configuration{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kindName(kind)},
		ObjectMeta: metav1.ObjectMeta{
			Name:   Name,
			Labels: map[string]string{nameLabel: Name, "app.kubernetes.io/component": "cloud-controller-manager"},
		},
		Webhooks: []admissionregistrationv1.MutatingWebhook{},
	}
	if o.InjectCAFrom != "" {
		c.Annotations = map[string]string{injectAnnotation: o.InjectCAFrom}
	}
	for _, w := range o.Webhooks {
		if w.Type == kind {
			c.Webhooks = append(c.Webhooks, o.webhook(w))
		}
	}
	slices.SortFunc(c.Webhooks, byName)
	return c
}

func kindName(t webhooks.Type) string { return string(t) + "WebhookConfiguration" }

func byName(a, b admissionregistrationv1.MutatingWebhook) int { return cmp.Compare(a.Name, b.Name) }

func (o *Options) webhook(w webhooks.Webhook) admissionregistrationv1.MutatingWebhook {
	policy, match, effects := o.FailurePolicy(w.Name), admissionregistrationv1.Equivalent, admissionregistrationv1.SideEffectClassNone
	timeout := int32(o.Timeout.Seconds())
	out := admissionregistrationv1.MutatingWebhook{
		Name:                    w.Name + "." + webhooks.Domain,
		AdmissionReviewVersions: []string{"v1"},
		ClientConfig:            o.clientConfig(w.Path),
		Rules:                   rules(w.Rules),
		FailurePolicy:           &policy,
		MatchPolicy:             &match,
		NamespaceSelector:       o.namespaceSelector(w),
		ObjectSelector:          &metav1.LabelSelector{MatchExpressions: optOut(w)},
		SideEffects:             &effects,
		TimeoutSeconds:          &timeout,
	}
	if w.MatchConditions != nil {
		out.MatchConditions = w.MatchConditions(o.Environment)
	}
	if w.Type == webhooks.Mutating {
		again := w.Reinvocation
		if again == "" {
			again = admissionregistrationv1.NeverReinvocationPolicy
		}
		out.ReinvocationPolicy = &again
	}
	return out
}

func (o *Options) clientConfig(path string) admissionregistrationv1.WebhookClientConfig {
	var c admissionregistrationv1.WebhookClientConfig
	if o.URL != "" {
		u := strings.TrimSuffix(o.URL, "/") + path
		c.URL = &u
		return c
	}
	port := int32(o.ServicePort) //nolint:gosec // Validate has seen it
	c.Service = &admissionregistrationv1.ServiceReference{Name: o.Service.Name, Namespace: o.Service.Namespace, Path: &path, Port: &port}
	return c
}

// rules returns in with scopes.
func rules(in []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	out := slices.Clone(in)
	all := admissionregistrationv1.AllScopes
	for i := range out {
		if out[i].Scope == nil {
			out[i].Scope = &all
		}
	}
	return out
}

// namespaceSelector keeps a webhook for namespaced objects away from namespaces that opt out
// and from the Service's own, where everything is that it takes to get a replica running.
func (o *Options) namespaceSelector(w webhooks.Webhook) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope
	}) {
		s.MatchExpressions = append(optOut(w), metav1.LabelSelectorRequirement{
			Key: namespaceLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{o.Service.Namespace},
		})
	}
	return s
}

func optOut(w webhooks.Webhook) []metav1.LabelSelectorRequirement {
	if w.OptOutLabel == "" {
		return nil
	}
	return []metav1.LabelSelectorRequirement{{Key: w.OptOutLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{optedOut}}}
}

// converted fills out, of one kind, with c, of either: all fields that both have are named alike.
func converted[T runtime.Object](c runtime.Object, out T) T {
	if data, err := json.Marshal(c); err == nil {
		_ = json.Unmarshal(data, out) // it cannot fail: the API server's types
	}
	return out
}
