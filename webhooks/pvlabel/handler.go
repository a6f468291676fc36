package pvlabel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
	"github.com/isthmus-cloud/isthmus/webhooks"
)

const (
	// Name is what --webhooks calls this webhook.
	Name = "persistentvolume-label"
	// Path is where it is served.
	Path = "/webhooks/persistentvolume-label"
	// OptOutLabel on a PersistentVolume, with the value "true", keeps the shipped webhook
	// configuration from sending it here.
	OptOutLabel = pv.OptOutLabel
	// auditZone is the key of the audit annotation with the zone that the cloud names.
	auditZone = "volume-zone"
)

// Volumes is what the webhook asks of a cloud; cloud.Volumes has it.
type Volumes interface {
	Ref(pv *corev1.PersistentVolume) (ref cloud.VolumeRef, ok bool, err error)
	Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume]
}

var (
	_ admission.Handler = (*Handler)(nil)
	_ Volumes           = cloud.Volumes(nil)
)

// Handler is the webhook.
type Handler struct {
	volumes Volumes
	policy  admissionregistrationv1.FailurePolicyType
}

// Webhook describes the webhook.
func Webhook() webhooks.Webhook {
	scope := admissionregistrationv1.ClusterScope
	return webhooks.Webhook{
		Name: Name, Path: Path, Type: webhooks.Mutating, OptOutLabel: OptOutLabel,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumes"}, Scope: &scope},
		}},
		MatchConditions: func(e webhooks.Environment) []admissionregistrationv1.MatchCondition {
			if e.Provider.Volumes == nil {
				return nil
			}
			return []admissionregistrationv1.MatchCondition{{Name: "volume-of-this-cloud", Expression: pv.Condition(e.Provider.Volumes.Sources())}}
		},
		New: func(e webhooks.Environment) admission.Handler {
			if e.Provider.Volumes == nil {
				return nil
			}
			return New(e.Provider.Volumes, e.FailurePolicy)
		},
	}
}

// New returns the handler for the cloud whose volumes these are. policy is that of the webhook
// configuration: with Ignore a cloud that does not answer does not keep PersistentVolumes from
// being created, just as a webhook that does not answer would not.
func New(volumes Volumes, policy admissionregistrationv1.FailurePolicyType) *Handler {
	return &Handler{volumes: volumes, policy: policy}
}

// Handle labels a PersistentVolume at its creation. What the cloud says against it refuses the
// creation: a Pod could be scheduled where the volume cannot go. So does a cloud that does not
// answer, but for policy Ignore.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return admission.Allowed("")
	}
	if req.Kind.Group != "" || req.Kind.Kind != "PersistentVolume" {
		return refuse(http.StatusBadRequest, fmt.Errorf("this webhook serves PersistentVolumes of v1, not %s; correct the rules of the webhook configuration", kindOf(req)))
	}
	object, err := decode(req.Object.Raw)
	if err != nil {
		return refuse(http.StatusBadRequest, fmt.Errorf("decode the PersistentVolume: %w", err))
	}
	m, zone, err := h.mutation(ctx, object)
	resp := h.response(ctx, object, m, err)
	if zone != "" {
		resp.AuditAnnotations = map[string]string{auditZone: zone}
	}
	return resp
}

// decode decodes what the decision needs of a PersistentVolume. Quantities are not: a few letters
// of one can take minutes.
func decode(raw []byte) (*corev1.PersistentVolume, error) {
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			corev1.PersistentVolumeSource
			NodeAffinity *corev1.VolumeNodeAffinity `json:"nodeAffinity"`
		} `json:"spec"`
	}
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	return &corev1.PersistentVolume{ObjectMeta: object.Metadata,
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: object.Spec.PersistentVolumeSource, NodeAffinity: object.Spec.NodeAffinity}}, nil
}

// response makes mutation's outcome one.
func (h *Handler) response(ctx context.Context, object *corev1.PersistentVolume, m pv.Mutation, err error) admission.Response {
	var silent *silentError
	switch {
	case errors.As(err, &silent) && h.policy == admissionregistrationv1.Ignore:
		klog.FromContext(ctx).V(2).Info("PersistentVolume is created without its zone and region, as the failure policy is Ignore", "persistentVolume", klog.KObj(object), "reason", err.Error())
		return admission.Allowed("").WithWarnings(silent.warning(nameOf(object)))
	case silent != nil: // the request is not to blame: it counts as an error of ours, which an alert is about
		return refuse(http.StatusServiceUnavailable, fmt.Errorf("persistentvolume %q: %w", nameOf(object), err))
	case err != nil:
		return refuse(http.StatusForbidden, fmt.Errorf("persistentvolume %q: %w", nameOf(object), err))
	case m.Empty():
		return admission.Allowed("").WithWarnings(m.Warnings...)
	}
	klog.FromContext(ctx).V(2).Info("PersistentVolume gets its place", "persistentVolume", klog.KObj(object), "labels", m.Labels, "requirements", len(m.Requirements))
	return admission.Patched("", m.Patch(object)...).WithWarnings(m.Warnings...)
}

// mutation decides on object, with the cloud's help where it is needed; zone is what the cloud
// says, several zones joined by commas. When the cloud has said nothing about the volume, the
// error is a silentError.
func (h *Handler) mutation(ctx context.Context, object *corev1.PersistentVolume) (m pv.Mutation, zone string, err error) {
	if m, ok, err := pv.Trusted(object); ok {
		return m, "", err
	}
	ref, ok, err := h.volumes.Ref(object)
	if !ok || err != nil {
		return pv.Mutation{}, "", err
	}
	results := h.volumes.Find(ctx, []cloud.VolumeRef{ref})
	switch {
	case len(results) != 1:
		return pv.Mutation{}, "", &silentError{ref.ID, fmt.Sprintf("the cloud gave %d answers about it; this is a defect, please report it", len(results)), false, nil}
	case results[0].Err != nil:
		return pv.Mutation{}, "", explain(ctx, ref, results[0].Err)
	case results[0].Value == nil:
		return pv.Mutation{}, "", &silentError{ref.ID, "the cloud gave no answer about it; this is a defect, please report it", false, nil}
	}
	zone = strings.Join(slices.Compact(slices.Sorted(slices.Values(results[0].Value.Zones))), ",")
	if m, err = pv.Decide(object, results[0].Value, ref.TopologyKey); err != nil {
		return pv.Mutation{}, zone, fmt.Errorf("volume %q: %w", ref.ID, err)
	}
	return m, zone, nil
}

func kindOf(req admission.Request) string {
	return schema.GroupVersionKind{Group: req.Kind.Group, Version: req.Kind.Version, Kind: req.Kind.Kind}.String()
}

func nameOf(object *corev1.PersistentVolume) string {
	if object.Name == "" {
		return object.GenerateName
	}
	return object.Name
}

func refuse(code int32, err error) admission.Response {
	resp := admission.Denied(err.Error())
	resp.Result.Code = code
	resp.Result.Status = metav1.StatusFailure
	switch code {
	case http.StatusBadRequest:
		resp.Result.Reason = metav1.StatusReasonBadRequest
	case http.StatusServiceUnavailable:
		resp.Result.Reason = metav1.StatusReasonServiceUnavailable
	}
	return resp
}
