package pvlabel_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/webhooks/pvlabel"
)

// startOpenStack starts a simulated OpenStack and the webhook on the real provider for it.
func startOpenStack(t *testing.T, moreConf string) (*ossim.Sim, *pvlabel.Handler) {
	t.Helper()
	sim := ossim.ForTest(t)
	p, warnings, err := openstack.New(t.Context(), sim.ConfFile(t, moreConf), cloud.Options{UserAgent: "test"})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("provider: %v, warnings %v", err, warnings)
	}
	return sim, pvlabel.New(p.Volumes, admissionregistrationv1.Fail)
}

// ask asks the webhook about the creation of pv.
func ask(ctx context.Context, t *testing.T, h *pvlabel.Handler, pv *corev1.PersistentVolume) (admission.Response, *corev1.PersistentVolume) {
	t.Helper()
	raw, err := json.Marshal(pv)
	if err != nil {
		t.Fatal(err)
	}
	req := createRequest(pv.Name, raw)
	resp := h.Handle(ctx, req)
	if err := resp.Complete(req); err != nil {
		t.Fatal(err)
	}
	return resp, applyPatch(t, raw, resp.Patch)
}

func TestOpenStack(t *testing.T) {
	sim, h := startOpenStack(t, "")
	const zone, region, own = corev1.LabelTopologyZone, corev1.LabelTopologyRegion, "topology.cinder.csi.openstack.org/zone"
	id := sim.AddVolume("data", "az2").ID
	for name, tt := range map[string]struct {
		pv   *corev1.PersistentVolume
		reqs []corev1.NodeSelectorRequirement
	}{
		"in-tree": {static("pv", id), []corev1.NodeSelectorRequirement{in(region, ossim.Region), in(zone, "az2")}},
		"CSI":     {staticCSI("pv", id), []corev1.NodeSelectorRequirement{in(own, "az2"), in(region, ossim.Region), in(zone, "az2")}},
	} {
		t.Run(name, func(t *testing.T) {
			sim.ResetRequests()
			resp, pv := ask(t.Context(), t, h, tt.pv)
			if !resp.Allowed {
				t.Fatalf("refused: %s", resp.Result.Message)
			}
			if diff := cmp.Diff(map[string]string{zone: "az2", region: ossim.Region}, pv.Labels); diff != "" {
				t.Errorf("labels differ (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(required(tt.reqs...), pv.Spec.NodeAffinity); diff != "" {
				t.Errorf("affinity differs (-want +got):\n%s", diff)
			}
			if n := sim.Count("volume", ""); n != 1 {
				t.Errorf("%d calls to Cinder, want 1", n)
			}
		})
	}
}

func TestOpenStackIgnoresZones(t *testing.T) {
	sim, h := startOpenStack(t, "\n[BlockStorage]\nignore-volume-az = true\n")
	resp, _ := ask(t.Context(), t, h, static("pv", sim.AddVolume("data", "az2").ID))
	if !resp.Allowed || len(resp.Patch) > 0 || sim.Count("", "") > 0 {
		t.Errorf("allowed %v, patch %s, %d calls; want an object as it was sent, without a call", resp.Allowed, resp.Patch, sim.Count("", ""))
	}
}

// TestOpenStackFails: whatever the cloud does instead of answering, the PersistentVolume is
// refused in words that tell the cause, and never with a secret.
func TestOpenStackFails(t *testing.T) {
	const unknown = "its zone could not be read from the cloud; try again later"
	for name, tt := range map[string]struct {
		fault ossim.Fault
		want  string
	}{
		"volume is gone":        {ossim.Fault{}, "does not exist in the cloud; correct the volume's ID"},
		"403":                   {ossim.Fault{Status: 403}, "the cloud refused to show it"},
		"404 of something else": {ossim.Fault{Status: 404, Body: "<html>no such page</html>"}, unknown},
		"429":                   {ossim.Fault{Status: 429, RetryAfter: time.Hour}, "the cloud takes no more requests for now"},
		"500":                   {ossim.Fault{Status: 500}, unknown},
		"503":                   {ossim.Fault{Status: 503}, unknown},
		"reset":                 {ossim.Fault{Reset: true}, unknown},
		"truncated":             {ossim.Fault{Truncate: true}, unknown},
		"another body":          {ossim.Fault{Body: `{"volume":{"id":"x","availability_zone":"az1"}}`}, unknown},
		"hang":                  {ossim.Fault{Hang: true}, "the cloud did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, h := startOpenStack(t, "")
			v := sim.AddVolume("data", "az2")
			if name == "volume is gone" {
				sim.DeleteVolume(v.ID)
			} else {
				tt.fault.Service, tt.fault.Path = "volume", "/volumes"
				sim.AddFault(tt.fault)
			}
			limit := time.Minute
			if tt.fault.Hang {
				limit = 3 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			resp, _ := ask(ctx, t, h, static("pv", v.ID))
			code := int32(http.StatusServiceUnavailable)
			if name == "volume is gone" {
				code = http.StatusForbidden
			}
			if resp.Allowed || resp.Result.Code != code || !strings.Contains(resp.Result.Message, tt.want) {
				t.Errorf("allowed %v, code %d, message %q; want a refusal that says %q", resp.Allowed, resp.Result.Code, resp.Result.Message, tt.want)
			}
			if strings.Contains(resp.Result.Message, "\n") || strings.Contains(resp.Result.Message, ossim.UserPassword) {
				t.Errorf("message %q has several lines or a secret", resp.Result.Message)
			}
		})
	}
}

// TestOpenStackLogin: a wrong password is told apart from a volume that is not there.
func TestOpenStackLogin(t *testing.T) {
	sim, h := startOpenStack(t, "")
	v := sim.AddVolume("data", "az2")
	sim.SetPassword(ossim.UserName, "another")
	resp, _ := ask(t.Context(), t, h, static("pv", v.ID))
	if resp.Allowed || !strings.Contains(resp.Result.Message, "check its credentials and their project") {
		t.Errorf("allowed %v, message %q", resp.Allowed, resp.Result.Message)
	}
}
