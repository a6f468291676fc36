package apiclient

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/dryrun"
)

// DryRun makes the API server check every write of config's clients, answer as if it
// had stored it, and store nothing (the API's dryRun=All); each write is logged once.
func DryRun(config *rest.Config, logger klog.Logger) {
	d := &dryRun{logger: logger}
	config.ContentType = runtime.ContentTypeJSON
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRunTransport{d, next} })
}

// dryRun is what the transports of all clients share.
type dryRun struct {
	logger klog.Logger
	once   dryrun.Once
}

type dryRunTransport struct {
	*dryRun
	next http.RoundTripper
}

// asks reports whether a POST to path is a question that changes nothing.
func asks(path string) bool {
	return strings.HasSuffix(path, "/tokenreviews") || strings.HasSuffix(path, "accessreviews")
}

// RoundTrip implements http.RoundTripper.
func (t dryRunTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead || asks(req.URL.Path) {
		return t.next.RoundTrip(req)
	}
	body, err := dryrun.Body(req)
	if err != nil {
		return nil, err
	}
	t.log(req, body)
	dry := req.Clone(req.Context())
	dry.Body = io.NopCloser(bytes.NewReader(body))
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	query.Set("dryRun", "All")
	dry.URL.RawQuery = query.Encode()
	return t.next.RoundTrip(dry)
}

// log says what would be written. Events are in the log as such.
func (d *dryRun) log(req *http.Request, body []byte) {
	if strings.HasSuffix(req.URL.Path, "/events") || strings.Contains(req.URL.Path, "/events/") {
		return
	}
	d.once.Logger(d.logger, req.Method+" "+req.URL.Path, body).
		Info("Dry run: the API server would store", "method", req.Method, "path", req.URL.Path, "body", strings.TrimSpace(string(body)))
}
