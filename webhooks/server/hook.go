package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// maxInFlight is how many requests of one webhook are handled at a time: more than API
	// servers send while all goes well, and so few that a cloud that hangs piles up nothing.
	maxInFlight = 256
	// retryAfter is what a client is told that finds them all taken, in seconds.
	retryAfter = 1
	// keptBuffer is the largest buffer that is kept for the next request.
	keptBuffer = 64 << 10
)

// Keys of audit annotations, which the API server prefixes with the webhook's name.
const (
	auditUser    = "user"
	auditOutcome = "outcome"
)

// hook serves one admission.Handler.
type hook struct {
	name    string
	handler admission.Handler
	opts    *Options
	metrics *metrics
	// slots has an element for each request that is being handled.
	slots chan struct{}
	// buffers are *bytes.Buffer for bodies.
	buffers *sync.Pool
}

func newHook(name string, h admission.Handler, o *Options, m *metrics) *hook {
	if m != nil {
		m.inFlight.WithLabelValues(name) // so that it is seen before the first request
	}
	return &hook{name: name, handler: h, opts: o, metrics: m, slots: make(chan struct{}, maxInFlight),
		buffers: &sync.Pool{New: func() any { return &bytes.Buffer{} }}}
}

// ServeHTTP answers every request with an AdmissionReview.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	inFlight := h.metrics.inFlight.WithLabelValues(h.name)
	inFlight.Inc()
	defer inFlight.Dec()

	ctx, cancel := context.WithDeadline(r.Context(), start.Add(h.timeout(r)))
	defer cancel()
	if id := traceID(r.Header.Get(traceHeader)); id != "" {
		ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("traceID", id))
	}
	rv, resp, outcome := h.answer(ctx, w, r)
	took := time.Since(start)
	h.metrics.duration.WithLabelValues(h.name, outcome).Observe(took.Seconds())
	h.log(ctx, rv, resp, outcome, took)
	writeReview(ctx, w, rv, resp)
}

// log says who asked and what came out, and nothing of the object but its name: messages
// repeat parts of it.
func (h *hook) log(ctx context.Context, rv *review, resp admission.Response, outcome string, took time.Duration) {
	logger, level, what := klog.FromContext(ctx), 4, "Answered admission request"
	if !resp.Allowed {
		level, what = 2, "Refused admission request"
	}
	if logger = logger.V(level); !logger.Enabled() {
		return
	}
	req := &rv.request
	values := []any{"webhook", h.name, "uid", req.UID, "operation", req.Operation, "resource", req.Resource.Resource,
		"object", klog.KRef(req.Namespace, req.Name), "user", req.UserInfo.Username, "outcome", outcome, "duration", took}
	if level == 2 {
		values = append(values, "code", resp.Result.Code)
		if outcome == outcomeInvalid || klog.FromContext(ctx).V(5).Enabled() {
			values = append(values, "message", resp.Result.Message)
		}
	}
	logger.Info(what, values...)
}

// answer decodes r and asks the handler.
func (h *hook) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) (*review, admission.Response, string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &review{}, errorf(http.StatusMethodNotAllowed, "method %s is not served; POST an AdmissionReview", clip(r.Method)), outcomeInvalid
	}
	rv, err := h.read(r)
	if err != nil {
		code := int32(http.StatusBadRequest)
		if tooLarge := (*tooLargeError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
			if r.ProtoMajor == 1 {
				w.Header().Set("Connection", "close") // what is left of the body is not worth reading
			}
		}
		return rv, errorf(code, "%w", err), outcomeInvalid
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		resp := h.busy()
		h.annotate(&resp, &rv.request, outcomeBusy)
		return rv, resp, outcomeBusy
	}
	resp, outcome := h.handle(ctx, rv.request)
	h.annotate(&resp, &rv.request, outcome)
	return rv, resp, outcome
}

// busy is the answer to one request more than are handled at a time.
func (h *hook) busy() admission.Response {
	if p := h.opts.FailurePolicy; p != nil && p(h.name) == admissionregistrationv1.Ignore {
		resp := admission.Allowed("")
		return resp.WithWarnings(fmt.Sprintf("webhook %s did not look at this object, as it has %d requests in hand: the cloud may be slow", h.name, maxInFlight))
	}
	return errorf(http.StatusTooManyRequests, "webhook %s has %d requests in hand, and takes no more until some are answered; try again in a moment", h.name, maxInFlight)
}

// annotate tells the audit log who asked and what came out, beside what the handler tells.
func (h *hook) annotate(resp *admission.Response, req *admission.Request, outcome string) {
	if resp.AuditAnnotations == nil {
		resp.AuditAnnotations = make(map[string]string, 2)
	}
	resp.AuditAnnotations[auditUser] = clip(req.UserInfo.Username)
	resp.AuditAnnotations[auditOutcome] = outcome
}

type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the body is larger than the limit of %d bytes", e.limit)
}

// read reads and decodes r's body. On an error the review holds what could be read.
func (h *hook) read(r *http.Request) (*review, error) {
	if err := checkHeader(r.Header); err != nil {
		return &review{}, err
	}
	limit := h.opts.MaxBodyBytes
	if r.ContentLength > limit {
		return &review{}, &tooLargeError{limit}
	}
	body := h.buffers.Get().(*bytes.Buffer)
	defer func() {
		if body.Cap() <= keptBuffer { // decoding copies what it keeps
			body.Reset()
			h.buffers.Put(body)
		}
	}()
	if _, err := body.ReadFrom(io.LimitReader(r.Body, limit+1)); err != nil {
		return &review{}, fmt.Errorf("read the request's body: %w", err)
	}
	if int64(body.Len()) > limit {
		return &review{}, &tooLargeError{limit}
	}
	return decodeReview(body.Bytes())
}

// handle asks the handler and survives its panic.
func (h *hook) handle(ctx context.Context, req admission.Request) (resp admission.Response, outcome string) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("webhook", h.name, "uid", req.UID))
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(panicError(ctx, p), "Webhook panicked", "stack", string(debug.Stack()))
			resp = errorf(http.StatusInternalServerError, "the webhook failed on an internal error; its log has the details under uid %s", req.UID)
			outcome = outcomePanic
		}
	}()
	resp = h.handler.Handle(ctx, req)
	if err := resp.Complete(req); err != nil {
		return errorf(http.StatusInternalServerError, "encode the patch: %w", err), outcomeError
	}
	switch {
	case resp.Allowed && len(resp.Patch) > 0:
		return resp, outcomePatched
	case resp.Allowed:
		return resp, outcomeAllowed
	case ctx.Err() != nil:
		return resp, outcomeTimeout
	case resp.Result.Code >= http.StatusInternalServerError:
		return resp, outcomeError
	}
	return resp, outcomeDenied
}

// panicError says what p, a panic's value, is. What it says may repeat parts of the object,
// unless it is of Go's runtime, so it is left out below V(5).
func panicError(ctx context.Context, p any) error {
	if err, ok := p.(runtime.Error); ok {
		return err
	}
	if klog.FromContext(ctx).V(5).Enabled() {
		return fmt.Errorf("%s", clip(fmt.Sprint(p)))
	}
	return fmt.Errorf("a value of type %T, shown from -v=5 on", p)
}

// timeout is how long the handler may take: what the API server grants in the query's
// timeout, less what it takes to connect to here, which the API server counts as well, and to
// deliver the answer. An answer that comes too late is as good as none: its words are lost.
func (h *hook) timeout(r *http.Request) time.Duration {
	granted := h.opts.RequestTimeout
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		granted = min(asked, 30*time.Second) // no webhook configuration grants more
	}
	return granted - min(granted/5, 2*time.Second)
}
