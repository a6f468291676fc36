package registration_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/registration"
)

// thePlane is the control plane of the package's tests.
var thePlane controlplane.Shared

func TestMain(m *testing.M) { thePlane.Main(m) }

// cluster is a real API server without webhook configurations when a test begins. Its tests
// do not run in parallel.
type cluster struct {
	*kubernetes.Clientset
	config *rest.Config
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	plane := thePlane.Plane(t)
	c := &cluster{plane.Client, plane.Config}
	clean := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		all := metav1.ListOptions{}
		if err := errors.Join(
			c.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
			c.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
			c.CoordinationV1().Leases("kube-system").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
			c.CoreV1().Events("default").DeleteCollection(ctx, metav1.DeleteOptions{}, all)); err != nil {
			t.Error(err)
		}
	}
	clean()
	t.Cleanup(clean)
	return c
}

// mutating and validating return the configurations; nil for none.
func (c *cluster) mutating(t *testing.T) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	m, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), registration.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (c *cluster) validating(t *testing.T) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	v, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), registration.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// event returns the messages of the events with reason.
func (c *cluster) event(t *testing.T, reason string) string {
	t.Helper()
	list, err := c.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name != registration.Name || !strings.HasSuffix(e.InvolvedObject.Kind, "WebhookConfiguration") {
			t.Errorf("event about %v", e.InvolvedObject)
		}
		out = append(out, e.Message)
	}
	return strings.Join(out, "\n")
}

// replica is a Keeper that runs.
type replica struct {
	keeper   *registration.Keeper
	registry *prometheus.Registry
	writes   atomic.Int64
	ready    atomic.Bool
	stop     func()
	knows    func() string // the CAs of a self-managed certificate

	mu  sync.Mutex
	ca  []byte
	log bytes.Buffer
	// told are the errors that whoever wants to know was told.
	told []string
}

func (r *replica) failed(object, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, object+" "+reason+" "+message)
}

// tells reports whether such an error was told.
func (r *replica) tells(prefix, part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.told, func(s string) bool { return strings.HasPrefix(s, prefix) && strings.Contains(s, part) })
}

// Write takes what the replica logs.
func (r *replica) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *replica) logged() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func (r *replica) setCA(ca string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ca = []byte(ca)
}

func (r *replica) bundle() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ca
}

// authority returns the certificate of a CA, the same for the same name.
func authority(name string) string {
	authorities.Lock()
	defer authorities.Unlock()
	if authorities.made[name] == "" {
		authorities.made[name] = newAuthority(name, time.Now().Add(time.Hour))
	}
	return authorities.made[name]
}

var authorities = struct {
	sync.Mutex
	made map[string]string
}{made: map[string]string{}}

func newAuthority(name string, notAfter time.Time) string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: notAfter.Add(-2 * time.Hour), NotAfter: notAfter, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// counting counts the writes of configurations.
type counting struct {
	writes *atomic.Int64
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "webhookconfigurations") {
		c.writes.Add(1)
	}
	return c.next.RoundTrip(r)
}

// start runs a replica with the CA "ca" that is ready, and wants what change makes of the
// default: both test webhooks.
func (c *cluster) start(t *testing.T, change func(*registration.Options, *replica)) *replica {
	t.Helper()
	r := &replica{registry: prometheus.NewRegistry()}
	r.setCA(authority("ca"))
	r.ready.Store(true)
	o := *registration.NewOptions()
	o.Mode, o.Metrics, o.CABundle, o.Webhooks = registration.Auto, r.registry, r.bundle, testHooks()
	o.Failed = r.failed
	o.Ready = func(context.Context) error {
		if r.ready.Load() {
			return nil
		}
		return errors.New("not yet")
	}
	if change != nil {
		change(&o, r)
	}
	if o.Client == nil {
		o.Client = r.client(t, c.config)
	}
	k, err := registration.New(o)
	if err != nil {
		t.Fatal(err)
	}
	k.SetPace(20*time.Millisecond, 50*time.Millisecond, 2*time.Second, time.Hour, 5)
	r.keeper = k
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(r), textlogger.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := k.Start(ctx); err != nil {
			t.Errorf("Start: %v", err)
		}
	}()
	var once sync.Once
	r.stop = func() { once.Do(func() { cancel(); <-ended }) }
	t.Cleanup(r.stop)
	return r
}

// client returns a client whose writes count.
func (r *replica) client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{&r.writes, next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// upToDate returns the sum of the gauges: 2 when both kinds are.
func (r *replica) upToDate(t *testing.T) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == "isthmus_webhook_registration_up_to_date" {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// settle waits until r has what it wants, and returns how much it has written so far.
func (r *replica) settle(t *testing.T) int64 {
	t.Helper()
	eventually.True(t, "the configurations are as wanted", func() bool { return r.upToDate(t) == 2 })
	return r.writes.Load()
}

func testHooks() []webhooks.Webhook {
	rule := func(resource string, scope admissionregistrationv1.ScopeType, operations ...admissionregistrationv1.OperationType) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{
			Operations: operations,
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}, Scope: &scope},
		}}
	}
	handler := func(webhooks.Environment) admission.Handler { return nil }
	return []webhooks.Webhook{
		{Name: "volumes", Path: "/webhooks/volumes", Type: webhooks.Mutating, OptOutLabel: webhooks.Domain + "/skip-volumes", New: handler,
			Rules: rule("persistentvolumes", admissionregistrationv1.ClusterScope, admissionregistrationv1.Create),
			MatchConditions: func(webhooks.Environment) []admissionregistrationv1.MatchCondition {
				return []admissionregistrationv1.MatchCondition{{Name: "has-csi", Expression: "has(object.spec.csi)"}}
			}},
		{Name: "maps", Path: "/webhooks/maps", Type: webhooks.Validating, OptOutLabel: webhooks.Domain + "/skip-maps", New: handler,
			Rules: rule("configmaps", admissionregistrationv1.NamespacedScope, admissionregistrationv1.Create, admissionregistrationv1.Update)},
	}
}

func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	case <-time.After(d):
	}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}
