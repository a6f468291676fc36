package webhookserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// clientName is in the certificate that the API server shows to the webhooks' Service.
const clientName = "kube-apiserver-webhooks"

// shared is the API server of all tests, started as our examples and guides say.
type shared struct {
	once     sync.Once
	err      error
	dir      string
	plane    *controlplane.ControlPlane
	clientCA string       // file with the CA of the API server's client certificate
	listener net.Listener // where the Service's webhooks are served
	traces   *httptest.Server
}

var theShared shared

func TestMain(m *testing.M) {
	code := m.Run()
	if p := theShared.plane; p != nil {
		if err := errors.Join(p.Stop(), os.RemoveAll(theShared.dir)); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control plane:", err)
			code = 1
		}
		theShared.traces.Close()
	}
	os.Exit(code)
}

func cluster(t *testing.T) *shared {
	t.Helper()
	s := &theShared
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s
}

func (s *shared) file(name string) string { return filepath.Join(s.dir, name) }

// start starts kube-apiserver with the admission configuration of the examples, an audit
// log, and tracing.
func (s *shared) start() error {
	var err error
	if s.dir, err = os.MkdirTemp("", "isthmus-webhooks-"); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	s.clientCA = s.file("client-ca.crt")
	if err := writeClientCertificate(s.clientCA, s.file("webhook-client.crt"), s.file("webhook-client.key")); err != nil {
		return err
	}
	s.traces = collector()
	port := fmt.Sprint(s.listener.Addr().(*net.TCPAddr).Port)
	for _, example := range []string{"apiserver-admission-configuration.yaml", "apiserver-webhook-kubeconfig.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../../manifests/examples", example))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("/etc/kubernetes/isthmus/"), []byte(s.dir+"/"))
		// The Service of the test has no port 443.
		text = bytes.ReplaceAll(text, []byte("name: isthmus-webhook.kube-system.svc"), []byte("name: isthmus-webhook.kube-system.svc:"+port))
		if err := os.WriteFile(s.file(example), text, 0o600); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"audit.yaml":   "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, resources: [{resources: [configmaps]}]}]\n",
		"tracing.yaml": "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: " + strings.TrimPrefix(s.traces.URL, "http://") + "\nsamplingRatePerMillion: 1000000\n",
	} {
		if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	s.plane, err = controlplane.Run(controlplane.Options{APIServerArgs: map[string][]string{
		"admission-control-config-file": {s.file("apiserver-admission-configuration.yaml")},
		"audit-policy-file":             {s.file("audit.yaml")},
		"audit-log-path":                {s.file("audit.log")},
		"tracing-config-file":           {s.file("tracing.yaml")},
	}})
	if err != nil {
		return err
	}
	// Without a network of Services, an ExternalName leads the API server to this host.
	ref := webhooks.DefaultService()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = s.plane.Client.CoreV1().Services(ref.Namespace).Create(ctx, service, metav1.CreateOptions{})
	return err
}

// collector takes no traces, and says so at once: an API server that waits for its collector
// takes most of a minute to end.
func collector() *httptest.Server {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "12") // unimplemented
	}))
	srv.Config.Protocols = &http.Protocols{}
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	return srv
}

// writeClientCertificate writes a new CA, and a client certificate of it with its key.
func writeClientCertificate(caFile, certFile, keyFile string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "clients of webhooks"}, caKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: clientName}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	block := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	return errors.Join(os.WriteFile(caFile, block(ca.Raw), 0o600), os.WriteFile(certFile, block(der), 0o600), os.WriteFile(keyFile, keyPEM, 0o600))
}

// hosted is a webhook server of one test, with one webhook.
type hosted struct {
	*server.Server
	url     string
	metrics *prometheus.Registry
	log     *lockedBuffer // at V(4)
	stop    func()        // and waits
}

// path is where the webhook of a test is served.
const path = "/webhooks/test"

// serve serves h on a free port until the test ends.
func serve(t *testing.T, h admission.HandlerFunc, change ...func(*server.Options)) *hosted {
	t.Helper()
	s := &hosted{metrics: prometheus.NewRegistry(), log: &lockedBuffer{}}
	o := server.NewOptions()
	o.Certs, o.Metrics = certstest.Source(t, t.TempDir()), s.metrics
	for _, c := range change {
		c(o)
	}
	if o.Listener == nil {
		var err error
		if o.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	s.url = "https://" + o.Listener.Addr().String()
	var err error
	if s.Server, err = server.New(*o); err != nil {
		t.Fatal(err)
	}
	s.Register("test", path, h)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(4), textlogger.Output(s.log)))))
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the webhook server ended with %v", err)
		}
	})
	t.Cleanup(s.stop)
	eventually.NoError(t, func() error {
		if s.Addr() == nil {
			return errors.New("the webhook server does not listen")
		}
		return nil
	})
	return s
}

// lockedBuffer takes logs of several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// hookName is the name of the webhook in the webhook configuration of the test.
func hookName(t *testing.T) string { return label(t) + "." + webhooks.Domain }

// label is what the ConfigMaps have that the test's webhook is asked about.
func label(t *testing.T) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
}

// register makes the API server ask the webhook, and waits until it does.
func (s *shared) register(t *testing.T, policy admissionregistrationv1.FailurePolicyType, client admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	none, seconds := admissionregistrationv1.SideEffectClassNone, int32(10)
	config := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: label(t)},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: hookName(t), ClientConfig: client, FailurePolicy: &policy, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"webhook": label(t)}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}},
		}},
	}
	api := s.plane.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := api.Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Delete(context.Background(), config.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// byURL is the client configuration of a webhook that is asked by URL, as of static pods.
func (h *hosted) byURL() admissionregistrationv1.WebhookClientConfig {
	url := h.url + path
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: h.CABundle()}
}

// create creates a ConfigMap that the test's webhook is asked about.
func (s *shared) create(t *testing.T, name string, data map[string]string) (*corev1.ConfigMap, error) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: label(t) + "-" + name, Labels: map[string]string{"webhook": label(t)}}, Data: data}
	return s.plane.Client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
}

// awaited creates ConfigMaps until done is content: the API server takes a moment to take
// notice of a webhook configuration.
func (s *shared) awaited(t *testing.T, done func(error) bool) {
	t.Helper()
	n := 0
	eventually.NoError(t, func() error {
		n++
		_, err := s.create(t, fmt.Sprintf("wait-%d", n), nil)
		if done(err) {
			return nil
		}
		return fmt.Errorf("the API server takes no notice of the webhook: the last create returned %w", err)
	})
}
