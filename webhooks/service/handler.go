package service

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/webhooks"
)

const (
	// Name is what --webhooks calls this webhook.
	Name = "service-load-balancer"
	// Path is where it is served.
	Path = "/webhooks/service-load-balancer"
	// OptOutLabel on a Service, with the value "true", keeps the shipped webhook configuration
	// from sending it here.
	OptOutLabel = webhooks.Domain + "/skip-service-load-balancer"
)

var _ admission.Handler = (*Handler)(nil)

// Handler is the webhook.
type Handler struct {
	environment webhooks.Environment
}

// Webhook describes the webhook.
func Webhook() webhooks.Webhook {
	scope := admissionregistrationv1.NamespacedScope
	return webhooks.Webhook{
		Name: Name, Path: Path, Type: webhooks.Validating, OptOutLabel: OptOutLabel,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}, Scope: &scope},
		}},
		MatchConditions: matchConditions,
		New: func(e webhooks.Environment) admission.Handler {
			if e.Provider.LoadBalancers == nil {
				return nil
			}
			return New(e)
		},
	}
}

// matchConditions leave out what Handle would allow without a word.
func matchConditions(e webhooks.Environment) []admissionregistrationv1.MatchCondition {
	const class = "object.spec.loadBalancerClass"
	var all []string
	for _, own := range e.Classes.Own() {
		all = append(all, fmt.Sprintf("%s == %q", class, own), fmt.Sprintf("%s.startsWith(%q)", class, own+"-"))
	}
	for _, name := range e.Classes.All() {
		if !slices.ContainsFunc(e.Classes.Own(), func(own string) bool { return name == own || strings.HasPrefix(name, own+"-") }) {
			all = append(all, fmt.Sprintf("%s == %q", class, name))
		}
	}
	if len(all) == 0 {
		all = []string{"false"}
	}
	ours := fmt.Sprintf("has(%s) && (%s)", class, strings.Join(all, " || "))
	if e.Classes.Default {
		ours = strings.Join(append([]string{fmt.Sprintf("!has(%s)", class)}, all...), " || ")
	}
	const annotations = "(has(%[1]s.metadata.annotations) ? %[1]s.metadata.annotations : {})"
	return []admissionregistrationv1.MatchCondition{
		{Name: "load-balancer", Expression: `has(object.spec.type) && object.spec.type == "LoadBalancer" && !has(object.metadata.deletionTimestamp)`},
		{Name: "class", Expression: ours},
		{Name: "changed", Expression: `request.operation == "CREATE" || object.spec != oldObject.spec || ` +
			fmt.Sprintf(annotations, "object") + " != " + fmt.Sprintf(annotations, "oldObject")},
	}
}

// New returns the handler for Services of e.
func New(e webhooks.Environment) *Handler { return &Handler{environment: e} }

// Handle reviews a Service that is created or changed. Requests about anything but the object
// itself, such as its status, are allowed.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update || req.SubResource != "" {
		return admission.Allowed("")
	}
	if req.Kind.Group != "" || req.Kind.Kind != "Service" {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("this webhook serves Services of v1, not %s; correct the rules of the webhook configuration",
			schema.GroupVersionKind{Group: req.Kind.Group, Version: req.Kind.Version, Kind: req.Kind.Kind}))
	}
	service, old := &corev1.Service{}, (*corev1.Service)(nil)
	if err := utiljson.Unmarshal(req.Object.Raw, service); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the Service: %w", err))
	}
	if req.Operation == admissionv1.Update {
		old = &corev1.Service{}
		if err := utiljson.Unmarshal(req.OldObject.Raw, old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the Service as it was: %w", err))
		}
	}
	if err := ctx.Err(); err != nil { // there is nobody to answer any more
		return admission.Errored(http.StatusGatewayTimeout, fmt.Errorf("the time was up before the Service could be reviewed: %w", err))
	}
	v := h.review(old, service).limited()
	if len(v.problems) == 0 {
		return admission.Allowed("").WithWarnings(v.warnings...)
	}
	name := service.Name
	if name == "" {
		name = service.GenerateName
	}
	return invalid(name, v)
}

// invalid is an answer in the form of the API server's own validation: clients find each
// problem with its field among the causes.
func invalid(name string, v verdict) admission.Response {
	status := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, name, v.problems).Status()
	if v.more > 0 {
		status.Message += fmt.Sprintf(" and %d more", v.more)
	}
	resp := admission.Denied("")
	resp.Result = &metav1.Status{Status: metav1.StatusFailure, Code: status.Code, Reason: status.Reason, Message: status.Message, Details: status.Details}
	return resp.WithWarnings(v.warnings...)
}
