package service_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack"
	"github.com/isthmus-cloud/isthmus/webhooks"
)

const (
	prefix   = "loadbalancer.openstack.org/"
	internal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	gold     = "isthmus-cloud.github.io/openstack-gold"
	someID   = "01234567-89ab-cdef-0123-456789abcdef"
)

// environment is OpenStack with more in cloud.conf. There is no cloud: the webhook never asks it.
func environment(t testing.TB, conf string) webhooks.Environment {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	text := "[Global]\nauth-url = http://127.0.0.1:1/v3\nusername = u\npassword = p\ntenant-name = t\nuser-domain-name = d\ntenant-domain-name = d\nregion = r\n" + conf + "\n[LoadBalancerClass \"gold\"]\nsubnet-id = " + someID + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, warnings, err := openstack.New(t.Context(), file, cloud.Options{UserAgent: "test", Traffic: noTraffic{t}})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("provider: %v, warnings %v", err, warnings)
	}
	return webhooks.Environment{Provider: p, Classes: lb.NewClasses(&p.LoadBalancing, true)}
}

const ovn = "[LoadBalancer]\nlb-provider = ovn\n"

// noTraffic is to a cloud that must not be asked.
type noTraffic struct{ testing.TB }

func (n noTraffic) Begin(_ context.Context, r cloud.Request) (func(cloud.Outcome), error) {
	n.Errorf("the cloud was asked: %s of %s", r.Op, r.Family)
	return func(cloud.Outcome) {}, nil
}

// example is a Service as the API server sends it.
func example(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeLoadBalancer,
			ClusterIP:  "10.0.0.7",
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// request is about the creation of a Service or, with old, about its change.
func request(t testing.TB, old, service *corev1.Service) admission.Request {
	t.Helper()
	raw := func(s *corev1.Service) runtime.RawExtension {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	req := rawRequest(raw(service).Raw, nil)
	if old != nil {
		req.Operation, req.OldObject = admissionv1.Update, raw(old)
	}
	return req
}

func rawRequest(service, old []byte) admission.Request {
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID:       "uid-of-the-request",
		Kind:      metav1.GroupVersionKind{Version: "v1", Kind: "Service"},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "services"},
		Namespace: "default", Name: "web",
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: service},
	}}
	if old != nil {
		req.Operation, req.OldObject = admissionv1.Update, runtime.RawExtension{Raw: old}
	}
	return req
}

// causes are the problems that an answer names, as "field: message".
func causes(resp admission.Response) []string {
	var out []string
	if resp.Result != nil && resp.Result.Details != nil {
		for _, c := range resp.Result.Details.Causes {
			out = append(out, c.Field+": "+c.Message)
		}
	}
	return out
}
