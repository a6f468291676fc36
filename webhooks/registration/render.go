package registration

import (
	"cmp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	stampAnnotation = webhooks.Domain + "/registration"
	caAnnotation    = webhooks.Domain + "/registered-ca"
	// leavingAnnotation has the fingerprints of the CAs that leave soon unless a replica objects.
	leavingAnnotation = webhooks.Domain + "/leaving-ca"
	// rootsAnnotation with systemRoots is of a configuration without CAs: they are not missing.
	rootsAnnotation  = webhooks.Domain + "/trusted-roots"
	systemRoots      = "api-server"
	injectAnnotation = "cert-manager.io/inject-ca-from"
)

// Configurations returns what is registered for o, with the CAs to trust. Every field that
// the API server would fill in is set.
func Configurations(o *Options, caBundle []byte) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	return render(o, webhooks.Mutating, caBundle), toValidating(render(o, webhooks.Validating, caBundle))
}

// configuration stands for both kinds: a validating one has no reinvocation policies, and
// is the same otherwise.
type configuration = admissionregistrationv1.MutatingWebhookConfiguration

func render(o *Options, kind webhooks.Type, caBundle []byte) *configuration {
	c := &configuration{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kindName(kind)},
		ObjectMeta: metav1.ObjectMeta{
			Name:   Name,
			Labels: map[string]string{nameLabel: Name, "app.kubernetes.io/component": "cloud-controller-manager"},
		},
		Webhooks: []admissionregistrationv1.MutatingWebhook{},
	}
	if o.InjectCAFrom != "" {
		c.Annotations, caBundle = map[string]string{injectAnnotation: o.InjectCAFrom}, nil
	}
	for _, w := range o.Webhooks {
		if w.Type == kind {
			c.Webhooks = append(c.Webhooks, o.webhook(w, caBundle))
		}
	}
	slices.SortFunc(c.Webhooks, byName)
	return c
}

func kindName(t webhooks.Type) string { return string(t) + "WebhookConfiguration" }

func byName(a, b admissionregistrationv1.MutatingWebhook) int { return cmp.Compare(a.Name, b.Name) }

func (o *Options) webhook(w webhooks.Webhook, caBundle []byte) admissionregistrationv1.MutatingWebhook {
	policy, match, effects := o.FailurePolicy(w.Name), admissionregistrationv1.Equivalent, admissionregistrationv1.SideEffectClassNone
	timeout := int32(o.Timeout.Seconds())
	out := admissionregistrationv1.MutatingWebhook{
		Name:                    w.Name + "." + webhooks.Domain,
		AdmissionReviewVersions: []string{"v1"},
		ClientConfig:            o.clientConfig(w.Path, caBundle),
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

func (o *Options) clientConfig(path string, caBundle []byte) admissionregistrationv1.WebhookClientConfig {
	c := admissionregistrationv1.WebhookClientConfig{CABundle: caBundle}
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

func toValidating(c *configuration) *admissionregistrationv1.ValidatingWebhookConfiguration {
	out := &admissionregistrationv1.ValidatingWebhookConfiguration{TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta, Webhooks: []admissionregistrationv1.ValidatingWebhook{}}
	for _, w := range c.Webhooks {
		out.Webhooks = append(out.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
	}
	return out
}

func fromValidating(c *admissionregistrationv1.ValidatingWebhookConfiguration) *configuration {
	out := &configuration{TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta}
	for _, w := range c.Webhooks {
		out.Webhooks = append(out.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, MatchPolicy: w.MatchPolicy,
			NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
		})
	}
	return out
}
