package webhooks_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/isthmus-cloud/isthmus/webhooks"
	"github.com/isthmus-cloud/isthmus/webhooks/certs"
	"github.com/isthmus-cloud/isthmus/webhooks/server"
)

// reserved is a webhook of a fork: it keeps namespaces from being named as the cloud's own.
// One line in hosted.All() is what it takes to host it:
//
//	return []webhooks.Webhook{pvlabel.Webhook(), reserved(), service.Webhook()}
func reserved() webhooks.Webhook {
	return webhooks.Webhook{
		Name: "reserved-namespace",
		Path: "/webhooks/reserved-namespace",
		Type: webhooks.Validating,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
		}},
		// The handler is controller-runtime's: func(ctx, request) response. Answer before ctx
		// ends, which is before the API server gives up.
		New: func(e webhooks.Environment) admission.Handler {
			return admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
				if req.Name == "cloud-system" {
					return admission.Denied("this name is the cloud's; choose another")
				}
				return admission.Allowed("it is free")
			})
		},
	}
}

// A webhook of one's own, served and asked.
func ExampleWebhook() {
	w := reserved()
	s, end, err := serve(w)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	for _, name := range []string{"shop", "cloud-system"} {
		answer, err := ask(s, w.Path, &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Name: name})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%t %s %s\n", answer.Allowed, name, answer.Result.Message)
	}
	// Output:
	// true shop it is free
	// false cloud-system this name is the cloud's; choose another
}

// serve is what the cloud controller manager does with each webhook of hosted.All().
func serve(w webhooks.Webhook) (s *server.Server, end func(), err error) {
	dir, err := os.MkdirTemp("", "webhook-")
	if err != nil {
		return nil, nil, err
	}
	o := server.NewOptions()
	o.Metrics = prometheus.NewRegistry()
	if o.Certs, err = certificate(dir); err != nil {
		return nil, nil, err
	}
	if o.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, err
	}
	if s, err = server.New(*o); err != nil {
		return nil, nil, err
	}
	s.Register(w.Name, w.Path, w.New(webhooks.Environment{}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	end = func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Println(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Println(err)
		}
	}
	for s.Ready(&http.Request{}) != nil {
		<-time.After(time.Millisecond)
	}
	return s, end, nil
}

// certificate writes a certificate into dir, as cert-manager or an operator would.
func certificate(dir string) (certs.Source, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return certs.New(context.Background(), certs.Options{Source: certs.SourceFiles, Dir: dir}, nil)
}

// ask is what the API server does.
func ask(s *server.Server, path string, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	review := &admissionv1.AdmissionReview{Request: req}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	// The API server checks the certificate by the webhook configuration's caBundle.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // self-signed, on loopback
	post, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://"+s.Addr().String()+path+"?timeout=10s", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: transport}).Do(post)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer := &admissionv1.AdmissionReview{}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return nil, err
	}
	return answer.Response, nil
}
