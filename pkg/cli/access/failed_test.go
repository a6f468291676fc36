package access

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// list is what a client says that lists Nodes, as doctor, status and the others tell it.
func list(t *testing.T, ctx context.Context, config *rest.Config) *Problem {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) { return client.CoreV1().Nodes().List(ctx, o) })
	p, ok := errors.AsType[*Problem](Failed(ctx, client, "list Nodes", err))
	if !ok {
		t.Fatalf("%v is no Problem", err)
	}
	if !strings.HasPrefix(p.What, "list Nodes: API server "+server(client)+": ") || strings.Contains(p.What, "\n") || strings.Count(p.Error(), "\n→ ") != 1 {
		t.Errorf("%q", p.Error())
	}
	return p
}

// TestFailed: each cause has its own next step, which names the server or what the kubeconfig has to do with it.
func TestFailed(t *testing.T) {
	status, body := http.StatusOK, "{}"
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	})
	plain, secure := httptest.NewServer(answer), httptest.NewUnstartedServer(answer)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	for _, c := range []struct {
		status int
		body   string
		next   string
	}{
		{http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"a\nb","code":401}`, "log in again or renew"},
		{http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`, "have a role with this right"},
		{http.StatusNotFound, "page not found", "may be another, or something else"},
		{http.StatusOK, `{"kind":"NodeList","apiVersion":"v1"}`, "may be another, or something else"},
		{http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"etcdserver: no leader","code":500}`, "/readyz?verbose"},
	} {
		status, body = c.status, c.body
		if p := list(t, t.Context(), &rest.Config{Host: plain.URL}); !strings.Contains(p.Next, c.next) {
			t.Errorf("%d: %q", c.status, p.Error())
		}
	}
	late, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not done after 1s"))
	ca := rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})}
	other := ca
	other.ServerName = "elsewhere.example"
	for next, p := range map[string]*Problem{
		"nobody listens there":        list(t, t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}),
		"certificate-authority-data":  list(t, t.Context(), &rest.Config{Host: secure.URL}),
		"tls-server-name":             list(t, t.Context(), &rest.Config{Host: secure.URL, TLSClientConfig: other}),
		"speaks no TLS":               list(t, t.Context(), &rest.Config{Host: "https://" + plain.Listener.Addr().String()}),
		"nobody has answered in time": list(t, late, &rest.Config{Host: plain.URL}),
	} {
		if !strings.Contains(p.Next, next) {
			t.Errorf("%q, want %q", p.Error(), next)
		}
		if late := next == "nobody has answered in time"; late != strings.HasSuffix(p.What, ": not done after 1s") {
			t.Errorf("%q", p.What)
		}
	}
}

// TestNextOfWhatClientsSay: causes that no server here has.
func TestNextOfWhatClientsSay(t *testing.T) {
	for want, err := range map[string]error{
		"at name resolution":                 &net.OpError{Op: "dial", Err: &net.DNSError{Name: "x.example", IsNotFound: true}},
		"HTTPS_PROXY":                        &net.OpError{Op: "proxyconnect", Err: errors.New("refused")},
		"VPN, routes and firewall":           &net.OpError{Op: "dial", Err: errors.New("no route to host")},
		"VPN, proxy and firewall":            context.DeadlineExceeded,
		"this machine's clock":               x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired},
		"the program that the kubeconfig's":  errors.New("getting credentials: exec: executable aws not found"),
		"kubectl get --raw=/readyz with the": errors.New("something new"),
	} {
		if got := next("https://x.example", &url.Error{Op: "Get", URL: "https://x.example/api", Err: err}); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestInterruptedIsNoProblem: who ends the program needs no next step.
func TestInterruptedIsNoProblem(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Failed(ctx, nil, "list Nodes", ctx.Err()); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "→") {
		t.Error(err)
	}
	if err := Failed(t.Context(), nil, "list Nodes", nil); err != nil {
		t.Error(err)
	}
}

// TestUnreachable: no request goes out, and the cause comes back.
func TestUnreachable(t *testing.T) {
	cause := errors.New("not asked")
	client, err := Unreachable(cause)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); !errors.Is(err, cause) {
		t.Error(err)
	}
}
