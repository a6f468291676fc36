package apiclient

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// DryRun makes the API server check every write of config's clients, answer as if it
// had stored it, and store nothing (the API's dryRun=All); each write is logged once.
func DryRun(config *rest.Config, logger klog.Logger) {
	d := &dryRun{logger: logger, seen: map[[sha256.Size]byte]bool{}}
	config.ContentType = runtime.ContentTypeJSON
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return dryRunTransport{d, next} })
}

// dryRun is what the transports of all clients share.
type dryRun struct {
	logger klog.Logger

	mu   sync.Mutex
	seen map[[sha256.Size]byte]bool // at most maxSeen
}

// maxSeen bounds how many writes are remembered as logged; then all are logged once more.
const maxSeen = 100_000

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
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
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
	key := sha256.Sum256(slices.Concat([]byte(req.Method+" "+req.URL.Path+" "), body))
	d.mu.Lock()
	repeated := d.seen[key]
	if len(d.seen) >= maxSeen {
		clear(d.seen)
	}
	d.seen[key] = true
	d.mu.Unlock()
	logger := d.logger
	if repeated {
		logger = logger.V(4)
	}
	logger.Info("Dry run: the API server would store", "method", req.Method, "path", req.URL.Path, "body", strings.TrimSpace(string(body)))
}
