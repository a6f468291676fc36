package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
	"github.com/isthmus-cloud/isthmus/webhooks/service"
)

// cluster is a real kube-apiserver that calls the webhook by its own description.
type cluster struct {
	*controlplane.ControlPlane
	services typed.ServiceInterface

	mu       sync.Mutex
	warnings []string
	// sent are the Services that reached the webhook, newest last.
	sent []*corev1.Service
}

var _ rest.WarningHandler = (*cluster)(nil)

// HandleWarningHeader implements rest.WarningHandler.
func (c *cluster) HandleWarningHeader(_ int, _ string, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, text)
}

// told returns the warnings since it was called last.
func (c *cluster) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.warnings
	c.warnings = nil
	return out
}

// reviewed returns the Services that have reached the webhook since it was called last.
func (c *cluster) reviewed() []*corev1.Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.sent
	c.sent = nil
	return out
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{ControlPlane: controlplane.Start(t)}
	cfg := rest.CopyConfig(c.Config)
	cfg.WarningHandler = c
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.services = client.CoreV1().Services(metav1.NamespaceDefault)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Options{Certs: certstest.Source(t, t.TempDir()), Listener: listener, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	env := environment(t, "")
	handler := service.Webhook().New(env)
	s.Register(service.Name, service.Path, admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		sent := &corev1.Service{}
		if err := json.Unmarshal(req.Object.Raw, sent); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		c.sent = append(c.sent, sent)
		c.mu.Unlock()
		return handler.Handle(ctx, req)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("webhook server: %v", err)
		}
	})
	c.register(t, env, "https://"+listener.Addr().String()+service.Path, s.CABundle())
	return c
}

// register makes the webhook configuration that the webhook describes, and waits for it.
func (c *cluster) register(t *testing.T, env webhooks.Environment, url string, ca []byte) {
	t.Helper()
	w, none, fail := service.Webhook(), admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	cfg := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "isthmus"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: w.Name + "." + webhooks.Domain, Rules: w.Rules, MatchConditions: w.MatchConditions(env),
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
			AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: w.OptOutLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}}}},
		}},
	}
	if _, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), cfg, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the webhook is called", func() bool {
		if _, err := c.services.Create(t.Context(), wanted("probe", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Fatal(err)
		}
		return len(c.reviewed()) > 0
	})
}

// wanted is a Service as a user writes it.
func wanted(name string, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func (c *cluster) create(t *testing.T, s *corev1.Service) *corev1.Service {
	t.Helper()
	out, err := c.services.Create(t.Context(), s, metav1.CreateOptions{FieldValidation: "Strict"})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// change changes the Service as it is now.
func (c *cluster) change(t *testing.T, name string, change func(*corev1.Service)) error {
	t.Helper()
	s, err := c.services.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	change(s)
	_, err = c.services.Update(t.Context(), s, metav1.UpdateOptions{})
	return err
}

func wantInvalid(t *testing.T, err error, fields ...string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Code != 422 || status.Status().Details == nil {
		t.Fatalf("got %v, want that it is invalid", err)
	}
	var got []string
	for _, cause := range status.Status().Details.Causes {
		got = append(got, cause.Field)
	}
	if diff := cmp.Diff(fields, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s\n%v", diff, err)
	}
}

func annotation(name string) string { return "metadata.annotations[" + name + "]" }

func TestRealAPIServer(t *testing.T) {
	c := startCluster(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"what arrives is allocated", c.testAllocated},
		{"creation", c.testCreation},
		{"warnings", c.testWarnings},
		{"change", c.testChange},
		{"what was wrong before", c.testRatchet},
		{"status, finalizers and deletion", c.testControllers},
		{"change of the type", c.testType},
		{"server-side apply", c.testApply},
		{"what is not sent", c.testScope},
		{"kubectl, as the guide shows it", c.testKubectl},
		{"without the default class", c.testNoDefault}, // last: it changes the configuration
	} {
		t.Run(tt.name, tt.test)
	}
}

// testAllocated: the API server has filled in what it allocates before it asks, also in a dry
// run, so that rules about it hold at creation.
func (c *cluster) testAllocated(t *testing.T) {
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil} {
		c.reviewed()
		s := wanted("allocated", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
		if _, err := c.services.Create(t.Context(), s, metav1.CreateOptions{DryRun: dryRun}); err != nil {
			t.Fatal(err)
		}
		sent := c.reviewed()
		if len(sent) != 1 {
			t.Fatalf("%d requests", len(sent))
		}
		spec := sent[0].Spec
		if spec.Ports[0].NodePort == 0 || spec.HealthCheckNodePort == 0 || spec.ClusterIP == "" || len(spec.IPFamilies) == 0 || spec.IPFamilyPolicy == nil {
			t.Errorf("dry run %v: the webhook sees %+v", dryRun, spec)
		}
	}
	no := false
	c.told()
	c.create(t, wanted("no-node-ports", func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = &no }))
	if told := c.told(); len(told) != 1 || !strings.HasPrefix(told[0], "spec.ports[0].nodePort: ") {
		t.Errorf("without node ports: warnings %q", told)
	}
	// Node ports of the user's own are as good.
	c.create(t, wanted("own-node-ports", func(s *corev1.Service) {
		s.Spec.AllocateLoadBalancerNodePorts, s.Spec.Ports[0].NodePort = &no, 30123
	}))
}

func (c *cluster) testCreation(t *testing.T) {
	bad := wanted("bad", func(s *corev1.Service) {
		s.Annotations[prefix+"flavor-id"] = "x"
		s.Annotations[prefix+"proxy-protocol"] = "v1"
		s.Annotations[prefix+"x-forwarded-for"] = "true"
		s.Annotations[prefix+"class"] = "silver"
		s.Spec.LoadBalancerSourceRanges = []string{"2001:db8::/32"}
	})
	for _, dryRun := range [][]string{nil, {metav1.DryRunAll}} {
		_, err := c.services.Create(t.Context(), bad, metav1.CreateOptions{DryRun: dryRun})
		wantInvalid(t, err, annotation(prefix+"flavor-id"), annotation(prefix+"class"), annotation(prefix+"proxy-protocol"), "spec.loadBalancerSourceRanges")
	}
	if _, err := c.services.Get(t.Context(), "bad", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was created: %v", err)
	}
	good := c.create(t, wanted("good", func(s *corev1.Service) {
		s.Annotations[prefix+"connection-limit"] = "100"
		s.Annotations[prefix+"class"] = "gold"
	}))
	if told := c.told(); len(told) > 0 || good.Spec.Ports[0].NodePort == 0 {
		t.Errorf("warnings %q of %+v", told, good.Spec)
	}
}

func (c *cluster) testWarnings(t *testing.T) {
	c.told()
	class := gold + "en"
	for name, tt := range map[string]struct {
		change func(*corev1.Service)
		want   string
	}{
		"typo": {func(s *corev1.Service) { s.Annotations[prefix+"flavro-id"] = someID },
			"annotation " + prefix + "flavro-id is not known and has no effect; did you mean " + prefix + "flavor-id?"},
		"typo-of-a-shared-prefix": {func(s *corev1.Service) {
			s.Annotations["service.beta.kubernetes.io/openstack-internal-load-balance"] = "true"
		},
			"annotation service.beta.kubernetes.io/openstack-internal-load-balance is not known and has no effect; did you mean " + internal + "?"},
		"class": {func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class },
			`spec.loadBalancerClass "isthmus-cloud.github.io/openstack-golden" is no class of this cloud's configuration, nothing will be done for it: use one of isthmus-cloud.github.io/openstack, isthmus-cloud.github.io/openstack-gold`},
		"no-bool": {func(s *corev1.Service) { s.Annotations[internal] = "True" },
			annotation(internal) + `: Invalid value: "True": use true or false; until then it is as if it were not set`},
		"others": {func(s *corev1.Service) {
			s.Annotations["service.beta.kubernetes.io/aws-load-balancer-internal"] = "maybe"
		}, ""},
	} {
		c.create(t, wanted("warned-"+name, tt.change))
		if diff := cmp.Diff(tt.want, strings.Join(c.told(), "\n")); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", name, diff)
		}
	}
}

func (c *cluster) testChange(t *testing.T) {
	c.create(t, wanted("changed", nil))
	wantInvalid(t, c.change(t, "changed", func(s *corev1.Service) { s.Annotations[prefix+"flavor-id"] = "maybe" }), annotation(prefix+"flavor-id"))
	patch := []byte(`{"metadata":{"annotations":{"` + prefix + `port-id":"mine"}}}`)
	for _, how := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		_, err := c.services.Patch(t.Context(), "changed", how, patch, metav1.PatchOptions{})
		wantInvalid(t, err, annotation(prefix+"port-id"))
	}
	if err := c.change(t, "changed", func(s *corev1.Service) { s.Annotations[internal] = "true" }); err != nil {
		t.Error(err)
	}
	// Where there is a load balancer, what a new one could not do is a warning: it may be another's.
	if err := c.change(t, "changed", func(s *corev1.Service) { s.Annotations[prefix+"load-balancer-id"] = someID }); err != nil {
		t.Error(err)
	}
	c.told()
	if err := c.change(t, "changed", func(s *corev1.Service) { s.Annotations[prefix+"lb-method"] = "SOURCE_IP_PORT" }); err != nil {
		t.Error(err)
	}
	if told := c.told(); len(told) != 1 || !strings.Contains(told[0], "lb-method") {
		t.Errorf("warnings %q", told)
	}
}

// testRatchet: what was wrong before the webhook came, or while it was away, never keeps anybody from
// changing something else.
func (c *cluster) testRatchet(t *testing.T) {
	c.create(t, wanted("old", func(s *corev1.Service) {
		s.Labels = map[string]string{service.OptOutLabel: "true"}
		s.Annotations[prefix+"flavor-id"] = "m1.small"
		s.Spec.LoadBalancerIP = "2001:db8::1"
	}))
	c.reviewed()
	if err := c.change(t, "old", func(s *corev1.Service) { s.Labels = nil }); err != nil || len(c.reviewed()) > 0 {
		t.Fatalf("a change of labels is judged: %v", err)
	}
	c.told()
	if err := c.change(t, "old", func(s *corev1.Service) { s.Annotations["example.com/owner"] = "me" }); err != nil || len(c.told()) > 0 {
		t.Errorf("somebody else's annotation: %v", err)
	}
	if err := c.change(t, "old", func(s *corev1.Service) {
		s.Spec.Ports = slices.Insert(s.Spec.Ports, 0, corev1.ServicePort{Name: "https", Port: 443})
	}); err != nil {
		t.Errorf("another port: %v", err)
	}
	if told := c.told(); len(told) != 2 || !strings.HasPrefix(told[0], "not rejected, as it was so before: "+annotation(prefix+"flavor-id")) || !strings.Contains(told[1], "spec.loadBalancerIP") {
		t.Errorf("warnings %q", told)
	}
	wantInvalid(t, c.change(t, "old", func(s *corev1.Service) { s.Annotations[prefix+"flavor-id"] = "m1.large" }), annotation(prefix+"flavor-id"))
	wantInvalid(t, c.change(t, "old", func(s *corev1.Service) { s.Annotations[prefix+"subnet-id"] = "lan" }), annotation(prefix+"subnet-id"))
	if err := c.change(t, "old", func(s *corev1.Service) { delete(s.Annotations, prefix+"flavor-id") }); err != nil {
		t.Errorf("one problem of two put right: %v", err)
	}
	wantInvalid(t, c.change(t, "old", func(s *corev1.Service) { s.Annotations[prefix+"flavor-id"] = "m1.small" }), annotation(prefix+"flavor-id"))
}

// testControllers: what controllers do to a Service, however bad it is, is not even sent.
func (c *cluster) testControllers(t *testing.T) {
	c.create(t, wanted("controlled", func(s *corev1.Service) {
		s.Labels = map[string]string{service.OptOutLabel: "true"}
		s.Annotations[prefix+"flavor-id"] = "m1.small"
	}))
	if err := c.change(t, "controlled", func(s *corev1.Service) { s.Labels = nil }); err != nil {
		t.Fatal(err)
	}
	c.reviewed()
	ctx := t.Context()
	if err := c.change(t, "controlled", func(s *corev1.Service) { s.Finalizers = []string{"example.com/keep"} }); err != nil {
		t.Errorf("add a finalizer: %v", err)
	}
	s, err := c.services.Get(ctx, "controlled", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}
	if _, err := c.services.UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
		t.Errorf("update the status: %v", err)
	}
	if _, err := c.services.Patch(ctx, "controlled", types.MergePatchType, []byte(`{"status":{"loadBalancer":null}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("patch the status: %v", err)
	}
	if err := c.services.Delete(ctx, "controlled", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := c.change(t, "controlled", func(s *corev1.Service) { s.Annotations[prefix+"port-id"] = "worse" }); err != nil {
		t.Errorf("change what is being deleted: %v", err)
	}
	if err := c.change(t, "controlled", func(s *corev1.Service) { s.Finalizers = nil }); err != nil {
		t.Errorf("remove the finalizer: %v", err)
	}
	if _, err := c.services.Get(ctx, "controlled", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
	if sent := c.reviewed(); len(sent) > 0 {
		t.Errorf("%d requests reached the webhook, want none", len(sent))
	}
}

func (c *cluster) testType(t *testing.T) {
	c.create(t, wanted("typed", func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeClusterIP
		s.Annotations[prefix+"flavor-id"] = "m1.small"
	}))
	toType := func(k corev1.ServiceType) error {
		return c.change(t, "typed", func(s *corev1.Service) { s.Spec.Type = k })
	}
	wantInvalid(t, toType(corev1.ServiceTypeLoadBalancer), annotation(prefix+"flavor-id"))
	if err := c.change(t, "typed", func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Annotations[prefix+"flavor-id"] = someID
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.change(t, "typed", func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeClusterIP
		s.Annotations[prefix+"flavor-id"] = "m1.small"
	}); err != nil {
		t.Errorf("away from LoadBalancer: %v", err)
	}
}

func (c *cluster) testApply(t *testing.T) {
	apply := func(method string) error {
		s := corev1apply.Service("applied", metav1.NamespaceDefault).WithAnnotations(map[string]string{prefix + "lb-method": method}).
			WithSpec(corev1apply.ServiceSpec().WithType(corev1.ServiceTypeLoadBalancer).WithPorts(corev1apply.ServicePort().WithName("http").WithProtocol(corev1.ProtocolTCP).WithPort(80)))
		_, err := c.services.Apply(t.Context(), s, metav1.ApplyOptions{FieldManager: "test"})
		return err
	}
	wantInvalid(t, apply("FASTEST"), annotation(prefix+"lb-method"))
	if err := apply("SOURCE_IP"); err != nil {
		t.Fatal(err)
	}
	c.reviewed()
	if err := apply("SOURCE_IP"); err != nil || len(c.reviewed()) > 0 {
		t.Errorf("the same again is judged: %v", err)
	}
	wantInvalid(t, apply("FASTEST"), annotation(prefix+"lb-method"))
}

// testScope: who has nothing to do with our load balancers has nothing to do with the webhook.
func (c *cluster) testScope(t *testing.T) {
	c.reviewed()
	bad := func(change func(*corev1.Service)) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Annotations[prefix+"flavor-id"] = "maybe"
			change(s)
		}
	}
	foreign, alike := "example.com/lb", "isthmus-cloud.github.io/openstackish"
	for name, change := range map[string]func(*corev1.Service){
		"cluster-ip": bad(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
		"node-port":  bad(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }),
		"external": bad(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
		}),
		"foreign": bad(func(s *corev1.Service) { s.Spec.LoadBalancerClass = &foreign }),
		"alike":   bad(func(s *corev1.Service) { s.Spec.LoadBalancerClass = &alike }),
		"skipped": bad(func(s *corev1.Service) { s.Labels = map[string]string{service.OptOutLabel: "true"} }),
	} {
		c.create(t, wanted("scope-"+name, change))
	}
	if sent := c.reviewed(); len(sent) > 0 {
		t.Errorf("%d requests reached the webhook, the first about %s", len(sent), sent[0].Name)
	}
	own := gold
	_, err := c.services.Create(t.Context(), wanted("scope-own", bad(func(s *corev1.Service) { s.Spec.LoadBalancerClass = &own })), metav1.CreateOptions{})
	wantInvalid(t, err, annotation(prefix+"flavor-id"))
}

// testKubectl runs what the guide shows and compares what kubectl prints.
func (c *cluster) testKubectl(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/service-webhook.md")
	if err != nil {
		t.Fatal(err)
	}
	kubectl := c.Kubectl(t)
	blocks := fenced(string(guide))
	manifests, outputs := blocks["yaml"], blocks["text"]
	if len(manifests) != 2 || len(outputs) != 2 {
		t.Fatalf("the guide shows %d manifests and %d outputs: %v", len(manifests), len(outputs), slices.Sorted(maps.Keys(blocks)))
	}
	for i, manifest := range manifests {
		got, err := kubectl(t.Context(), manifest, "create", "-f", "-")
		if refused := i == 0; (err != nil) != refused {
			t.Errorf("kubectl: %v\n%s", err, got)
		}
		if diff := cmp.Diff(outputs[i], strings.ReplaceAll(got, " \n", "\n")); diff != "" {
			t.Errorf("what kubectl prints (-guide +got):\n%s\n%s", diff, got)
		}
	}
	got, err := kubectl(t.Context(), manifests[0], "apply", "-f", "-")
	if err == nil || !strings.Contains(got, `The Service "shop" is invalid`) {
		t.Errorf("kubectl apply: %v\n%s", err, got)
	}
	got, err = kubectl(t.Context(), "", "annotate", "service", "good", prefix+"lb-method=RANDOM", "--overwrite")
	if err == nil || !strings.Contains(got, `Unsupported value: "RANDOM": supported values: "ROUND_ROBIN"`) {
		t.Errorf("kubectl annotate: %v\n%s", err, got)
	}
}

// testNoDefault: with --load-balancer-default-class=false Services without a class are not sent.
func (c *cluster) testNoDefault(t *testing.T) {
	env := environment(t, "")
	env.Classes.Default = false
	api := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	cfg, err := api.Get(t.Context(), "isthmus", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Webhooks[0].MatchConditions = service.Webhook().MatchConditions(env)
	if _, err := api.Update(t.Context(), cfg, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	classless := wanted("classless", func(s *corev1.Service) { s.Annotations[prefix+"flavor-id"] = "maybe" })
	eventually.NoError(t, func() error {
		_, err := c.services.Create(t.Context(), classless, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
	own := gold
	classless.Spec.LoadBalancerClass = &own
	_, err = c.services.Create(t.Context(), classless, metav1.CreateOptions{})
	wantInvalid(t, err, annotation(prefix+"flavor-id"))
}

// fenced returns the fenced blocks of a document by language.
func fenced(text string) map[string][]string {
	out, language, block := map[string][]string{}, "", ""
	for line := range strings.Lines(text) {
		mark, fence := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```")
		switch {
		case !fence && language != "":
			block += line
		case fence && language != "":
			out[language] = append(out[language], block)
			language, block = "", ""
		case fence:
			language = mark
		}
	}
	return out
}
