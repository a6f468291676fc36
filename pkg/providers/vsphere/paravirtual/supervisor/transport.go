package supervisor

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/dryrun"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// dryRunBody is what is logged of a request's body.
const dryRunBody = 16 << 10

// transport stands before every request. It sends none again: that is for who asked.
type transport struct {
	next    http.RoundTripper
	options cloud.Options
	place   string
	logger  klog.Logger
	once    *dryrun.Once
}

func newTransport(o cloud.Options, place string, logger klog.Logger) func(http.RoundTripper) http.RoundTripper {
	once := &dryrun.Once{}
	return func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, options: o, place: place, logger: logger, once: once}
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	mutates := req.Method != http.MethodGet && !strings.HasSuffix(req.URL.Path, "/"+accessReviews.Plural)
	end, err := t.options.Begin(req.Context(), cloud.Request{Family: "supervisor", Place: t.place, Op: req.Method, Object: req.URL.Path, Mutates: mutates})
	if err != nil {
		return nil, err
	}
	send := t.next.RoundTrip
	if mutates && t.options.DryRun {
		send = t.dry
	}
	resp, err := send(req)
	if err != nil {
		end(cloud.Outcome{})
		return nil, err
	}
	out := cloud.Outcome{Status: resp.StatusCode, Throttled: resp.StatusCode == http.StatusTooManyRequests, RequestID: resp.Header.Get("Audit-Id")}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		out.RetryAfter = time.Duration(s) * time.Second
	}
	end(out)
	if out.Throttled {
		_ = resp.Body.Close()
		return nil, &cloud.Error{Kind: cloud.KindThrottled, RetryAfter: out.RetryAfter, RequestID: out.RequestID, Err: errors.New("the Supervisor answers 429 Too Many Requests")}
	}
	resp.Header.Del("Retry-After") // else the client would send it again by itself
	return resp, nil
}

// dry says what would be sent, and answers as if it had been.
func (t *transport) dry(req *http.Request) (*http.Response, error) {
	body, err := dryrun.Body(req)
	if err != nil {
		return nil, err
	}
	t.once.Logger(t.logger, req.Method+" "+req.URL.Path, body).Info(dryrun.CloudWouldChange, "service", "supervisor",
		"method", req.Method, "path", req.URL.Path, "body", text.Clip(string(body), dryRunBody))
	switch req.Method {
	case http.MethodPost:
		return dryrun.Answer(req, http.StatusCreated, body), nil
	case http.MethodDelete:
		return dryrun.Answer(req, http.StatusOK, []byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`)), nil
	}
	return dryrun.Answer(req, http.StatusOK, body), nil
}
