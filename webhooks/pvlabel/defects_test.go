package pvlabel_test

import (
	"encoding/json"
	"reflect"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// TestDefectEmptyTerm: the plugin's replacement made an empty node selector term, which
// matches no Node, when the cloud had no labels.
func TestDefectEmptyTerm(t *testing.T) {
	resp := pvlabel.New(&volumes{}, admissionregistrationv1.Fail).Handle(t.Context(), createRequest("pv", cinderPV("nowhere")))
	if !resp.Allowed || len(resp.Patches) > 0 {
		t.Errorf("allowed %v, patches %v; want an object as it was sent", resp.Allowed, resp.Patches)
	}
}

// TestDefectBareStatus: the replacement refused with an HTTP status, without an
// AdmissionReview and a message.
func TestDefectBareStatus(t *testing.T) {
	s := serve(t)
	object := `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"pv"},"spec":{"cinder":{"volumeID":"gone"}}}`
	for body, code := range map[string]int32{
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":}}`: 400,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","name":"pv",` +
			`"kind":{"version":"v1","kind":"PersistentVolume"},"object":` + object + `}}`: 403,
	} {
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(s.post(t, pvlabel.New(&volumes{}, admissionregistrationv1.Ignore), []byte(body)), &review); err != nil {
			t.Fatal(err)
		}
		if r := review.Response; r == nil || r.Allowed || r.Result == nil || r.Result.Code != code || r.Result.Message == "" {
			t.Errorf("%s: got %+v, want a refusal with code %d and a message", body, r, code)
		}
	}
}

// TestDefectRandomOrder: the plugin's requirements and joined zones came in the order of a map.
func TestDefectRandomOrder(t *testing.T) {
	h := pvlabel.New(&volumes{}, admissionregistrationv1.Fail)
	first := h.Handle(t.Context(), createRequest("pv", cinderPV("regional")))
	for range 100 {
		if again := h.Handle(t.Context(), createRequest("pv", cinderPV("regional"))); !reflect.DeepEqual(first, again) {
			t.Fatalf("two answers: %v and %v", first, again)
		}
	}
}

// TestComplaintProviderGone (kubernetes/kubernetes#124504): the plugin rejected
// PersistentVolumes of clouds that it was not set up for. Here they pass, unasked about.
func TestComplaintProviderGone(t *testing.T) {
	sim, h := startOpenStack(t, "")
	for name, source := range map[string]corev1.PersistentVolumeSource{
		"ebs":     {AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
		"gce":     {GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "disk"}},
		"azure":   {AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "disk"}},
		"vsphere": {VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] disk.vmdk"}},
		"csi":     {CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}},
	} {
		resp, _ := ask(t.Context(), t, h, volume(name, source))
		if !resp.Allowed || len(resp.Patches) > 0 {
			t.Errorf("%s: allowed %v, patches %v; want an object as it was sent", name, resp.Allowed, resp.Patches)
		}
	}
	if n := sim.Count("", ""); n > 0 {
		t.Errorf("%d calls to the cloud", n)
	}
}
