package webhookserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// The API server asks our Service with the client certificate that the examples give it; the
// audit log says who asked and what came out, and the trace goes on in our log, which says
// nothing of the object.
func TestClientCertificateAuditAndTrace(t *testing.T) {
	c := cluster(t)
	h := serve(t, func(ctx context.Context, req admission.Request) admission.Response {
		klog.FromContext(ctx).V(2).Info("Asking the cloud", "about", req.Name)
		resp := admission.Allowed("")
		resp.AuditAnnotations = map[string]string{"volume-zone": "az1"}
		return resp
	}, func(o *server.Options) {
		o.Listener, o.ClientCAFile, o.ClientNames = c.listener, c.clientCA, []string{clientName}
	})
	ref, servedAt, port := webhooks.DefaultService(), path, int32(c.listener.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
	c.register(t, admissionregistrationv1.Fail, admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Name: ref.Name, Namespace: ref.Namespace, Path: &servedAt, Port: &port}, CABundle: h.CABundle(),
	})
	c.awaited(t, func(err error) bool { return err == nil && strings.Contains(h.log.String(), "Asking the cloud") })
	object, err := c.create(t, "object", map[string]string{"password": "s3cret-of-the-object"})
	if err != nil {
		t.Fatal(err)
	}
	var event *auditv1.Event
	eventually.NoError(t, func() error {
		event = c.audited(t, object.Name)
		if event == nil {
			return fmt.Errorf("the audit log has nothing on %s", object.Name)
		}
		return nil
	})
	want := map[string]string{"volume-zone": "az1", "user": event.User.Username, "outcome": "allowed"}
	got := map[string]string{}
	for key, value := range event.Annotations {
		if name, ok := strings.CutPrefix(key, hookName(t)+"/"); ok {
			got[name] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || event.User.Username == "" {
		t.Errorf("audit annotations of %s differ (-want +got):\n%s", hookName(t), diff)
	}
	log := h.log.String()
	line := regexp.MustCompile(`"Asking the cloud".* traceID="[0-9a-f]{32}".* webhook="test".* about="` + object.Name + `"`)
	if !line.MatchString(log) {
		t.Errorf("no line matches %s:\n%s", line, log)
	}
	if strings.Contains(log, "s3cret") || !strings.Contains(log, "Answered admission request") {
		t.Errorf("the log at V(4) shows the object, or no answers:\n%s", log)
	}
}

// audited returns the audit log's event on a ConfigMap's creation.
func (s *shared) audited(t *testing.T, name string) *auditv1.Event {
	t.Helper()
	f, err := os.Open(s.file("audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		event := &auditv1.Event{}
		if json.Unmarshal(lines.Bytes(), event) == nil && event.ObjectRef != nil && event.ObjectRef.Name == name {
			return event
		}
	}
	return nil
}

// An API server without the certificate is told what to do, the failurePolicy decides, and
// probes need none.
func TestAPIServerWithoutCertificate(t *testing.T) {
	c := cluster(t)
	var asked atomic.Int64
	h := serve(t, func(context.Context, admission.Request) admission.Response {
		asked.Add(1)
		return admission.Allowed("")
	}, func(o *server.Options) { o.ClientCAFile = c.clientCA })
	t.Run("fail", func(t *testing.T) {
		c.register(t, admissionregistrationv1.Fail, h.byURL())
		const want = "this webhook server accepts only clients with a certificate of --webhook-client-ca-file: give the API server one"
		c.awaited(t, func(err error) bool { return err != nil && strings.Contains(err.Error(), want) })
	})
	t.Run("ignore", func(t *testing.T) {
		before := h.rejected(t)
		c.register(t, admissionregistrationv1.Ignore, h.byURL())
		c.awaited(t, func(err error) bool { return err == nil && h.rejected(t) > before })
	})
	if n := asked.Load(); n != 0 {
		t.Errorf("the webhook was asked %d times by a client without a certificate", n)
	}
}

// rejected is how many requests were refused for their client.
func (h *hosted) rejected(t *testing.T) int {
	t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "isthmus_webhook_clients_rejected_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == "no_certificate" {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	t.Fatal("there is no metric of rejected clients")
	return 0
}
