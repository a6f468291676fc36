package pvlabel_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

func cinderPV(id string) []byte {
	raw, err := json.Marshal(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: id},
		}},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// TestNoVolumes: a cloud without volumes has no such webhook.
func TestNoVolumes(t *testing.T) {
	if h := pvlabel.Webhook().New(webhooks.Environment{Provider: &cloud.Provider{}}); h != nil {
		t.Errorf("it has %v", h)
	}
}

// TestOtherRequests: what is not the creation of a PersistentVolume.
func TestOtherRequests(t *testing.T) {
	tests := map[string]struct {
		change  func(*admission.Request)
		allowed bool
		code    int32
		message string
	}{
		"update":      {change: func(r *admission.Request) { r.Operation = admissionv1.Update }, allowed: true, code: http.StatusOK},
		"delete":      {change: func(r *admission.Request) { r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{} }, allowed: true, code: http.StatusOK},
		"status":      {change: func(r *admission.Request) { r.SubResource = "status" }, allowed: true, code: http.StatusOK},
		"other kind":  {change: func(r *admission.Request) { r.Kind.Kind = "Pod" }, code: http.StatusBadRequest, message: `this webhook serves PersistentVolumes of v1, not /v1, Kind=Pod`},
		"other group": {change: func(r *admission.Request) { r.Kind.Group = "example.com" }, code: http.StatusBadRequest, message: "example.com"},
		"no object":   {change: func(r *admission.Request) { r.Object = runtime.RawExtension{} }, code: http.StatusBadRequest, message: "decode the PersistentVolume"},
		"not JSON":    {change: func(r *admission.Request) { r.Object.Raw = []byte("{") }, code: http.StatusBadRequest, message: "decode the PersistentVolume"},
		"wrong types": {change: func(r *admission.Request) { r.Object.Raw = []byte(`{"spec":[]}`) }, code: http.StatusBadRequest, message: "decode the PersistentVolume"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := createRequest("pv", cinderPV("zonal"))
			tt.change(&req)
			cloud := &volumes{}
			resp := pvlabel.New(cloud, admissionregistrationv1.Fail).Handle(context.Background(), req)
			if resp.Allowed != tt.allowed || resp.Result.Code != tt.code || len(resp.Patches) > 0 {
				t.Errorf("allowed %v, code %d, %d patches; want allowed %v, code %d, none", resp.Allowed, resp.Result.Code, len(resp.Patches), tt.allowed, tt.code)
			}
			if !strings.Contains(resp.Result.Message, tt.message) {
				t.Errorf("message %q does not say %q", resp.Result.Message, tt.message)
			}
			if len(cloud.asked) > 0 {
				t.Errorf("the cloud was asked about %v", cloud.asked)
			}
		})
	}
}

// hanging is a cloud that answers only when it is given up.
type hanging struct{ volumes }

func (h *hanging) Find(ctx context.Context, refs []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	<-ctx.Done()
	return []cloud.Result[*cloud.Volume]{{Err: ctx.Err()}}
}

// broken is a cloud whose connection breaks when it is given up.
type broken struct{ volumes }

func (*broken) Find(ctx context.Context, _ []cloud.VolumeRef) []cloud.Result[*cloud.Volume] {
	<-ctx.Done()
	return []cloud.Result[*cloud.Volume]{{Err: cloud.Errorf(cloud.KindNotFound, "broken pipe")}}
}

// What a call says whose time was up, or whose client has left, is no word of the cloud.
func TestCloudGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resp := pvlabel.New(&broken{}, admissionregistrationv1.Fail).Handle(ctx, createRequest("pv", cinderPV("zonal")))
	if want := "the cloud did not answer in time"; resp.Allowed || !strings.Contains(resp.Result.Message, want) {
		t.Errorf("allowed %v: %q, want %q", resp.Allowed, resp.Result.Message, want)
	}
}

func TestCloudHangs(t *testing.T) {
	for policy, allowed := range map[admissionregistrationv1.FailurePolicyType]bool{admissionregistrationv1.Ignore: true, admissionregistrationv1.Fail: false, "": false} {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		resp := pvlabel.New(&hanging{}, policy).Handle(ctx, createRequest("pv", cinderPV("zonal")))
		text := resp.Result.Message
		if allowed {
			text = strings.Join(resp.Warnings, "\n")
		}
		if resp.Allowed != allowed || !strings.Contains(text, "did not answer in time") {
			t.Errorf("policy %q: allowed %v with %q; want %v, and that the cloud did not answer in time", policy, resp.Allowed, text, allowed)
		}
	}
}
