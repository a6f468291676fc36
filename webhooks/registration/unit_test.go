package registration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/hosted"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

func TestValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want []string // errors; none for valid flags
	}{
		"defaults":         {nil, nil},
		"all":              {[]string{"--webhook-registration=auto", "--webhook-url=https://127.0.0.1:10260", "--webhook-failure-policy=Ignore,volumes=Fail", "--webhook-timeout=30s", "--webhook-service-port=8443"}, nil},
		"IPv6":             {[]string{"--webhook-url=https://[::1]:10260/"}, nil},
		"mode":             {[]string{"--webhook-registration=yes"}, []string{`--webhook-registration: "yes" is not one of none, auto, remove`}},
		"http":             {[]string{"--webhook-url=http://host:1"}, []string{"--webhook-url", "https://host:port"}},
		"no port":          {[]string{"--webhook-url=https://host"}, []string{"--webhook-url", "https://host:port"}},
		"path":             {[]string{"--webhook-url=https://host:1/path"}, []string{"each webhook's own"}},
		"query":            {[]string{"--webhook-url=https://host:1?timeout=1s"}, []string{"--webhook-url"}},
		"no URL":           {[]string{"--webhook-url=https://host:port"}, []string{"--webhook-url: it is no URL"}},
		"policy":           {[]string{"--webhook-failure-policy=ignore"}, []string{`--webhook-failure-policy: "ignore"`, "Ignore or Fail"}},
		"policy's webhook": {[]string{"--webhook-failure-policy=volume=Fail"}, []string{`unknown webhook "volume"; known are volumes, maps`}},
		"policy of one":    {[]string{"--webhook-failure-policy=volumes=Never"}, []string{`"volumes=Never"`}},
		"timeout":          {[]string{"--webhook-timeout=31s"}, []string{"--webhook-timeout: 31s: the API server knows whole seconds from 1s to 30s"}},
		"part of a second": {[]string{"--webhook-timeout=1500ms"}, []string{"--webhook-timeout: 1.5s"}},
		"port":             {[]string{"--webhook-service-port=0"}, []string{"--webhook-service-port: 0"}},
		"several":          {[]string{"--webhook-timeout=0", "--webhook-url=x"}, []string{"--webhook-timeout", "--webhook-url"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, fs := registration.NewOptions(), pflag.NewFlagSet("test", pflag.ContinueOnError)
			o.AddFlags(fs)
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			err := o.Validate(webhooks.Names(testHooks()))
			if (err == nil) != (len(tt.want) == 0) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want %q", err, want)
				}
			}
		})
	}
	o := registration.NewOptions()
	o.URL = "https://user:hunter2@host:1"
	if err := o.Validate(nil); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a URL with a password: %v", err)
	}
}

// What is registered for one webhook, by flag.
func TestConfigurations(t *testing.T) {
	o := registration.NewOptions()
	o.Webhooks, o.FailurePolicies, o.Timeout = testHooks(), []string{"Fail", "volumes=Ignore"}, 3*time.Second
	o.Service, o.ServicePort = webhooks.Service{Name: "s", Namespace: "n"}, 8443
	m, v := registration.Configurations(o, []byte("ca"))
	ignore, fail, equivalent, none, never, three := admissionregistrationv1.Ignore, admissionregistrationv1.Fail, admissionregistrationv1.Equivalent,
		admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.NeverReinvocationPolicy, int32(3)
	path, port := "/webhooks/volumes", int32(8443)
	not := func(key, value string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}}
	}
	want := admissionregistrationv1.MutatingWebhook{
		Name:          "volumes.isthmus-cloud.github.io",
		ClientConfig:  admissionregistrationv1.WebhookClientConfig{CABundle: []byte("ca"), Service: &admissionregistrationv1.ServiceReference{Namespace: "n", Name: "s", Path: &path, Port: &port}},
		Rules:         testHooks()[0].Rules,
		FailurePolicy: &ignore, MatchPolicy: &equivalent, SideEffects: &none, TimeoutSeconds: &three, ReinvocationPolicy: &never,
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{not("isthmus-cloud.github.io/skip-volumes", "true")}},
		MatchConditions:         []admissionregistrationv1.MatchCondition{{Name: "has-csi", Expression: "has(object.spec.csi)"}},
		AdmissionReviewVersions: []string{"v1"},
	}
	if diff := cmp.Diff([]admissionregistrationv1.MutatingWebhook{want}, m.Webhooks); diff != "" {
		t.Errorf("mutating webhooks differ (-want +got):\n%s", diff)
	}
	if len(v.Webhooks) != 1 || *v.Webhooks[0].FailurePolicy != fail {
		t.Fatalf("validating webhooks %v", v.Webhooks)
	}
	namespaces := []metav1.LabelSelectorRequirement{not("isthmus-cloud.github.io/skip-maps", "true"), not("kubernetes.io/metadata.name", "n")}
	if diff := cmp.Diff(namespaces, v.Webhooks[0].NamespaceSelector.MatchExpressions); diff != "" {
		t.Errorf("namespace selector differs (-want +got):\n%s", diff)
	}

	o.URL, o.InjectCAFrom = "https://127.0.0.1:1/", "n/c"
	o.Webhooks[0].Reinvocation = admissionregistrationv1.IfNeededReinvocationPolicy
	m, _ = registration.Configurations(o, []byte("ca"))
	client := m.Webhooks[0].ClientConfig
	if client.URL == nil || *client.URL != "https://127.0.0.1:1/webhooks/volumes" || client.Service != nil || client.CABundle != nil {
		t.Errorf("with a URL and injection: %v", client)
	}
	if m.Annotations["cert-manager.io/inject-ca-from"] != "n/c" || *m.Webhooks[0].ReinvocationPolicy != admissionregistrationv1.IfNeededReinvocationPolicy {
		t.Errorf("annotations %v, reinvocation %s", m.Annotations, *m.Webhooks[0].ReinvocationPolicy)
	}
}

// bootstrap is what a cluster writes before a replica runs: its own objects, those that bring
// its pods up, and those of cert-manager, as group/resource with the namespace.
var bootstrap = strings.Fields(`
	/namespaces. /nodes. /nodes/status. /serviceaccounts.kube-system /serviceaccounts/token.kube-system /secrets.kube-system
	/configmaps.kube-system /services.kube-system /services/status.kube-system /endpoints.kube-system /pods.kube-system
	/pods/binding.kube-system /pods/status.kube-system /pods/eviction.kube-system /events.kube-system /events.default /resourcequotas.kube-system
	apps/daemonsets.kube-system apps/deployments.kube-system apps/deployments/scale.kube-system apps/replicasets.kube-system
	apps/controllerrevisions.kube-system policy/poddisruptionbudgets.kube-system events.k8s.io/events.default
	coordination.k8s.io/leases.kube-system coordination.k8s.io/leases.kube-node-lease discovery.k8s.io/endpointslices.kube-system
	authentication.k8s.io/tokenreviews. authorization.k8s.io/subjectaccessreviews. certificates.k8s.io/certificatesigningrequests.
	rbac.authorization.k8s.io/clusterroles. rbac.authorization.k8s.io/clusterrolebindings. rbac.authorization.k8s.io/roles.kube-system
	rbac.authorization.k8s.io/rolebindings.kube-system scheduling.k8s.io/priorityclasses. networking.k8s.io/networkpolicies.kube-system
	admissionregistration.k8s.io/mutatingwebhookconfigurations. admissionregistration.k8s.io/validatingwebhookconfigurations.
	apiextensions.k8s.io/customresourcedefinitions. apiregistration.k8s.io/apiservices.
	cert-manager.io/issuers.kube-system cert-manager.io/clusterissuers. cert-manager.io/certificates.kube-system
	cert-manager.io/certificates/status.kube-system cert-manager.io/certificaterequests.kube-system cert-manager.io/certificaterequests/status.kube-system
	/secrets.cert-manager coordination.k8s.io/leases.cert-manager apps/deployments.cert-manager acme.cert-manager.io/orders.kube-system`)

// No hosted webhook's rules match what it takes to get a replica running: with policy Fail
// that could never come up.
func TestNotInTheWayOfItsOwnStart(t *testing.T) {
	o := registration.NewOptions()
	o.Webhooks = hosted.All()
	for i := range o.Webhooks {
		o.Webhooks[i].MatchConditions = nil // not to rely on
	}
	m, v := registration.Configurations(o, nil)
	hooks := m.Webhooks
	for _, w := range v.Webhooks {
		hooks = append(hooks, admissionregistrationv1.MutatingWebhook{Name: w.Name, Rules: w.Rules, NamespaceSelector: w.NamespaceSelector})
	}
	if len(hooks) != len(hosted.All()) || len(bootstrap) < 40 {
		t.Fatalf("%d of %d webhooks, %d objects: this test would check nothing", len(hooks), len(hosted.All()), len(bootstrap))
	}
	for _, w := range hooks {
		for _, object := range bootstrap {
			if intercepts(t, w, object) {
				t.Errorf("%s intercepts %s", w.Name, object)
			}
		}
	}
	// The test sees what it is to see.
	all := admissionregistrationv1.MutatingWebhook{Rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, Resources: []string{"*/*"}}}}}
	for _, object := range bootstrap {
		if !intercepts(t, all, object) {
			t.Errorf("a webhook for everything does not intercept %s: this test checks nothing", object)
		}
	}
}

func intercepts(t *testing.T, w admissionregistrationv1.MutatingWebhook, object string) bool {
	t.Helper()
	i := strings.LastIndex(object, ".")
	if strings.HasSuffix(object[:i], ".io") && !strings.Contains(object[:i], "/") {
		t.Fatalf("bad object %q", object)
	}
	namespace := object[i+1:]
	group, resource, _ := strings.Cut(object[:i], "/")
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	if w.NamespaceSelector != nil && namespace != "" && !selector.Matches(labels.Set{"kubernetes.io/metadata.name": namespace}) {
		return false
	}
	kind, sub, _ := strings.Cut(resource, "/")
	return slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		if r.Scope != nil && ((*r.Scope == admissionregistrationv1.ClusterScope && namespace != "") || (*r.Scope == admissionregistrationv1.NamespacedScope && namespace == "")) {
			return false
		}
		return slices.ContainsFunc(r.APIGroups, func(g string) bool { return g == "*" || g == group }) &&
			slices.ContainsFunc(r.Resources, func(pattern string) bool {
				k, s, _ := strings.Cut(pattern, "/")
				return (k == "*" || k == kind) && (s == "*" || s == sub)
			})
	})
}
