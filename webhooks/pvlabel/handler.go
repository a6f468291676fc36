package pvlabel

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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
	OptOutLabel = webhooks.Domain + "/skip-persistentvolume-label"
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
		New: func(e webhooks.Environment) admission.Handler {
			if e.Provider.Volumes == nil {
				return nil
			}
			return New(e.Provider.Volumes)
		},
	}
}

// New returns the handler for the cloud whose volumes these are.
func New(volumes Volumes) *Handler { return &Handler{volumes: volumes} }

// Handle labels a PersistentVolume at its creation. Whatever keeps it from knowing the
// volume's place refuses the creation: a Pod could be scheduled where the volume cannot go.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return admission.Allowed("")
	}
	if req.Kind.Group != "" || req.Kind.Kind != "PersistentVolume" {
		return refuse(http.StatusBadRequest, fmt.Errorf("this webhook serves PersistentVolumes of v1, not %s; correct the rules of the webhook configuration", kindOf(req)))
	}
	object := &corev1.PersistentVolume{}
	if err := utiljson.Unmarshal(req.Object.Raw, object); err != nil {
		return refuse(http.StatusBadRequest, fmt.Errorf("decode the PersistentVolume: %w", err))
	}
	m, err := h.mutation(ctx, object)
	if err != nil {
		return refuse(http.StatusForbidden, err)
	}
	if m.Empty() {
		return admission.Allowed("").WithWarnings(m.Warnings...)
	}
	klog.FromContext(ctx).V(2).Info("PersistentVolume gets its place", "persistentVolume", klog.KObj(object), "labels", m.Labels, "requirements", len(m.Requirements))
	return admission.Patched("", m.Patch(object)...).WithWarnings(m.Warnings...)
}

// mutation decides on object, with the cloud's help where it is needed.
func (h *Handler) mutation(ctx context.Context, object *corev1.PersistentVolume) (pv.Mutation, error) {
	if m, ok, err := pv.Trusted(object); ok {
		if err != nil {
			return pv.Mutation{}, fmt.Errorf("persistentvolume %q: %w", nameOf(object), err)
		}
		return m, nil
	}
	ref, ok, err := h.volumes.Ref(object)
	if err != nil {
		return pv.Mutation{}, fmt.Errorf("persistentvolume %q: %w", nameOf(object), err)
	}
	if !ok {
		return pv.Mutation{}, nil
	}
	results := h.volumes.Find(ctx, []cloud.VolumeRef{ref})
	if len(results) != 1 {
		return pv.Mutation{}, fmt.Errorf("persistentvolume %q: the cloud gave %d answers about volume %q; this is a defect, please report it", nameOf(object), len(results), ref.ID)
	}
	if err := results[0].Err; err != nil {
		return pv.Mutation{}, explain(ctx, object, ref, err)
	}
	if results[0].Value == nil {
		return pv.Mutation{}, fmt.Errorf("persistentvolume %q: the cloud gave no answer about volume %q; this is a defect, please report it", nameOf(object), ref.ID)
	}
	m, err := pv.Decide(object, results[0].Value, ref.TopologyKey)
	if err != nil {
		return pv.Mutation{}, fmt.Errorf("persistentvolume %q: volume %q: %w", nameOf(object), ref.ID, err)
	}
	return m, nil
}

// explain says what a cloud's error means for the user who creates object.
func explain(ctx context.Context, object *corev1.PersistentVolume, ref cloud.VolumeRef, err error) error {
	prefix := fmt.Sprintf("persistentvolume %q: volume %q", nameOf(object), ref.ID)
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: the cloud did not answer in time, so its zone is unknown; try again later: %w", prefix, err)
	}
	switch cloud.KindOf(err) {
	case cloud.KindNotFound:
		return fmt.Errorf("%s does not exist in the cloud; correct the volume's ID in the PersistentVolume's spec: %w", prefix, err)
	case cloud.KindDenied:
		return fmt.Errorf("%s: the cloud refused to show it to the cloud controller manager; check its credentials and their project: %w", prefix, err)
	case cloud.KindThrottled:
		return fmt.Errorf("%s: the cloud takes no more requests for now; try again later: %w", prefix, err)
	case cloud.KindInvalid, cloud.KindUnsupported:
		return fmt.Errorf("%s: %w", prefix, err)
	}
	return fmt.Errorf("%s: its zone could not be read from the cloud; try again later: %w", prefix, err)
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
	if code == http.StatusBadRequest {
		resp.Result.Reason = metav1.StatusReasonBadRequest
	}
	return resp
}
