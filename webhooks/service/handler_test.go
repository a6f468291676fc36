package service_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

func bad(s *corev1.Service) { s.Annotations[prefix+"flavor-id"] = "maybe" }

// TestRequestsNotJudged: whatever the webhook configuration sends, only Services that are
// created or changed are judged.
func TestRequestsNotJudged(t *testing.T) {
	handler := service.New(environment(t, ""))
	for name, change := range map[string]func(*admission.Request){
		"deletion":   func(r *admission.Request) { r.Operation, r.Object = admissionv1.Delete, runtime.RawExtension{} },
		"connection": func(r *admission.Request) { r.Operation = admissionv1.Connect },
		"status":     func(r *admission.Request) { r.SubResource = "status" },
		"proxy":      func(r *admission.Request) { r.SubResource = "proxy" },
	} {
		req := request(t, example(nil), example(bad))
		change(&req)
		if resp := handler.Handle(t.Context(), req); !resp.Allowed || len(resp.Warnings) > 0 {
			t.Errorf("%s: %v", name, resp)
		}
	}
}

func TestMalformedRequests(t *testing.T) {
	handler := service.New(environment(t, ""))
	for name, tt := range map[string]struct {
		change func(*admission.Request)
		want   string
	}{
		"another kind":    {func(r *admission.Request) { r.Kind.Kind = "Pod" }, "serves Services of v1, not /v1, Kind=Pod; correct the rules"},
		"another group":   {func(r *admission.Request) { r.Kind.Group = "serving.knative.dev" }, "serving.knative.dev/v1, Kind=Service; correct the rules"},
		"no object":       {func(r *admission.Request) { r.Object.Raw = nil }, "decode the Service:"},
		"no old object":   {func(r *admission.Request) { r.OldObject.Raw = nil }, "decode the Service as it was:"},
		"no JSON":         {func(r *admission.Request) { r.Object.Raw = []byte("{") }, "decode the Service:"},
		"a list of ports": {func(r *admission.Request) { r.Object.Raw = []byte(`{"spec":{"ports":"80"}}`) }, "decode the Service:"},
	} {
		req := request(t, example(nil), example(nil))
		tt.change(&req)
		resp := handler.Handle(t.Context(), req)
		if resp.Allowed || resp.Result.Code != http.StatusBadRequest || !strings.Contains(resp.Result.Message, tt.want) {
			t.Errorf("%s: allowed %v, %v; want %q", name, resp.Allowed, resp.Result, tt.want)
		}
	}
}

// TestName: a Service whose name is not made yet is named by what it will begin with.
func TestName(t *testing.T) {
	resp := service.New(environment(t, "")).Handle(t.Context(), request(t, nil, example(func(s *corev1.Service) {
		bad(s)
		s.Name, s.GenerateName = "", "web-"
	})))
	if resp.Result.Details == nil || resp.Result.Details.Name != "web-" || resp.Result.Details.Kind != "Service" {
		t.Errorf("%+v", resp.Result)
	}
}

// TestDefaultClass: with --load-balancer-default-class=false Services without a class are others'.
func TestDefaultClass(t *testing.T) {
	env := environment(t, "")
	env.Classes.Default = false
	own := gold
	for name, tt := range map[string]struct {
		service *corev1.Service
		allowed bool
	}{
		"no class":  {example(bad), true},
		"our class": {example(func(s *corev1.Service) { bad(s); s.Spec.LoadBalancerClass = &own }), false},
	} {
		if resp := service.New(env).Handle(t.Context(), request(t, nil, tt.service)); resp.Allowed != tt.allowed {
			t.Errorf("%s: %+v", name, resp.Result)
		}
	}
	var class string
	for _, m := range service.Webhook().MatchConditions(env) {
		if m.Name == "class" {
			class = m.Expression
		}
	}
	const want = `has(object.spec.loadBalancerClass) && (object.spec.loadBalancerClass == "isthmus-cloud.github.io/openstack" || object.spec.loadBalancerClass.startsWith("isthmus-cloud.github.io/openstack-"))`
	if diff := cmp.Diff(want, class); diff != "" {
		t.Errorf("match condition (-want +got):\n%s", diff)
	}
}

// Services of an existing manager's classes are sent, too, and none where a cloud has no class.
func TestClassConditionIsMadeOfWholeValues(t *testing.T) {
	for want, classes := range map[string]map[string]string{
		`has(object.spec.loadBalancerClass) && (object.spec.loadBalancerClass == "isthmus-cloud.github.io/aws" || ` +
			`object.spec.loadBalancerClass.startsWith("isthmus-cloud.github.io/aws-") || object.spec.loadBalancerClass == "service.k8s.aws/nlb")`: {
			"service.k8s.aws/nlb": "nlb", "isthmus-cloud.github.io/aws": "", "isthmus-cloud.github.io/aws-gold": "gold",
		},
		`has(object.spec.loadBalancerClass) && (false)`: nil,
	} {
		e := webhooks.Environment{Classes: lb.NewClasses(&cloud.LoadBalancerTraits{Classes: classes}, false)}
		if diff := cmp.Diff(want, service.Webhook().MatchConditions(e)[1].Expression); diff != "" {
			t.Errorf("match condition (-want +got):\n%s", diff)
		}
	}
}

// TestBecomesOurs: what was wrong while a Service was none of ours is no excuse.
func TestBecomesOurs(t *testing.T) {
	handler := service.New(environment(t, ""))
	for name, old := range map[string]*corev1.Service{
		"another type":   example(func(s *corev1.Service) { bad(s); s.Spec.Type = corev1.ServiceTypeNodePort }),
		"another class":  example(func(s *corev1.Service) { bad(s); c := "example.com/lb"; s.Spec.LoadBalancerClass = &c }),
		"a stray class":  example(func(s *corev1.Service) { bad(s); c := gold + "en"; s.Spec.LoadBalancerClass = &c }),
		"nothing at all": {},
	} {
		if resp := handler.Handle(t.Context(), request(t, old, example(bad))); resp.Allowed {
			t.Errorf("from %s: allowed", name)
		}
	}
}

// TestManyProblems: an answer names them all, and stays small however long the values are.
func TestManyProblems(t *testing.T) {
	env := environment(t, "")
	s := example(func(s *corev1.Service) {
		for _, a := range env.Provider.Annotations {
			if _, bad := sample(a); bad != "" {
				s.Annotations[a.Name] = bad + strings.Repeat("x", 2_000)
			}
		}
		for range 1_000 {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, "2001:db8::/32")
		}
	})
	resp := service.New(env).Handle(t.Context(), request(t, nil, s))
	data, err := json.Marshal(resp.AdmissionResponse)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(causes(resp)) + len(resp.Warnings); n < len(s.Annotations)-2 || len(data) > 64<<10 {
		t.Errorf("%d problems and warnings of %d annotations in %d bytes", n, len(s.Annotations), len(data))
	}
}

// TestProblemsAreCounted: an answer names fifty problems and warnings, and says how many there are.
func TestProblemsAreCounted(t *testing.T) {
	s := example(func(s *corev1.Service) {
		s.Spec.Ports = nil
		for range 300 {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Protocol: "X", Port: 80})
		}
	})
	resp := service.New(environment(t, "")).Handle(t.Context(), request(t, nil, s))
	if n := len(causes(resp)); n != 50 || len(resp.Warnings) != 51 {
		t.Errorf("%d causes and %d warnings", n, len(resp.Warnings))
	}
	if !regexp.MustCompile(`\] and \d{3} more$`).MatchString(resp.Result.Message) || !strings.HasSuffix(resp.Warnings[50], " more") {
		t.Errorf("does not say that there are more: %q", resp.Result.Message)
	}
	s.Spec.Ports = make([]corev1.ServicePort, 20_000)
	resp = service.New(environment(t, "")).Handle(t.Context(), request(t, nil, s))
	if !strings.Contains(resp.Result.Message, "spec.ports: Too many: 20000: must have at most 1000 items") {
		t.Errorf("%.300s", resp.Result.Message)
	}
}

// TestTimeIsUp: nothing is judged for whom nobody waits.
func TestTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if resp := service.New(environment(t, "")).Handle(ctx, request(t, nil, example(nil))); resp.Allowed || resp.Result.Code != http.StatusGatewayTimeout {
		t.Errorf("%+v", resp)
	}
}

// TestAnotherCloud: the webhook knows no cloud: vocabulary, rules and classes are the provider's.
func TestAnotherCloud(t *testing.T) {
	provider := &cloud.Provider{Name: "example", LoadBalancing: cloud.LoadBalancerTraits{Classes: cloud.OwnClasses("example", "gold")}, LoadBalancers: struct{ cloud.LoadBalancers }{}, Annotations: []cloud.Annotation{
		{Name: "lb.example.org/size", Type: cloud.TypeEnum, Enum: []string{"small", "large"}, Doc: "Size."}},
		CheckLoadBalancer: func(spec *cloud.LoadBalancerSpec) (field.ErrorList, []string) {
			if spec.Settings.String("lb.example.org/size", "") == "large" && spec.Class != "gold" {
				return field.ErrorList{field.Forbidden(cloud.AnnotationPath("lb.example.org/size"), "large ones are of class gold")}, nil
			}
			return nil, nil
		}}
	env := webhooks.Environment{Provider: provider, Classes: lb.NewClasses(&provider.LoadBalancing, true)}
	handler, ok := service.Webhook().New(env).(*service.Handler)
	if !ok {
		t.Fatal("no handler")
	}
	own := "isthmus-cloud.github.io/example-gold"
	for name, tt := range map[string]struct {
		size, class string
		want        []string
	}{
		"fine":        {size: "small"},
		"malformed":   {size: "huge", want: []string{`metadata.annotations[lb.example.org/size]: Unsupported value: "huge": supported values: "small", "large"`}},
		"refused":     {size: "large", want: []string{"metadata.annotations[lb.example.org/size]: Forbidden: large ones are of class gold"}},
		"by class":    {size: "large", class: own},
		"not its own": {size: "huge", class: gold},
	} {
		s := example(func(s *corev1.Service) {
			s.Annotations["lb.example.org/size"] = tt.size
			if tt.class != "" {
				s.Spec.LoadBalancerClass = &tt.class
			}
		})
		resp := handler.Handle(t.Context(), request(t, nil, s))
		if diff := cmp.Diff(tt.want, causes(resp)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if service.Webhook().New(webhooks.Environment{Provider: &cloud.Provider{Name: "example"}}) != nil {
		t.Error("a cloud without load balancers has the webhook")
	}
}

// TestStatus: the answer has the form of the API server's own refusals.
func TestStatus(t *testing.T) {
	resp := service.New(environment(t, "")).Handle(t.Context(), request(t, nil, example(bad)))
	want := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `Service "web" is invalid: metadata.annotations[` + prefix + `flavor-id]: Invalid value: "maybe": use an ID of the form 01234567-89ab-cdef-0123-456789abcdef`,
		Details: &metav1.StatusDetails{Kind: "Service", Name: "web", Causes: []metav1.StatusCause{{
			Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.annotations[" + prefix + "flavor-id]", Message: `Invalid value: "maybe": use an ID of the form 01234567-89ab-cdef-0123-456789abcdef`}}}}
	if diff := cmp.Diff(want, resp.Result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
