package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// retryAfter is what a client is told that finds no room, in seconds.
const retryAfter = 1

// Keys of audit annotations, which the API server prefixes with the webhook's name.
const (
	auditUser    = "user"
	auditOutcome = "outcome"
)

// common is what all webhooks of a server have together.
type common struct {
	opts    Options
	metrics *metrics
	// memory is for the bodies of all requests, decoded for what is built of them.
	memory, decoded *shares
	latecomers      *latecomers
}

func newCommon(o Options) common {
	return common{opts: o, memory: newShares(maxBodies, reservedMemory), decoded: newShares(maxDecoded, reservedMemory), latecomers: newLatecomers()}
}

// hook serves one admission.Handler.
type hook struct {
	*common
	name    string
	handler admission.Handler
	// slots are for the requests that are being handled.
	slots *shares
	// buffers are *bytes.Buffer for bodies.
	buffers *sync.Pool
}

func newHook(name string, h admission.Handler, c *common) *hook {
	if c.metrics != nil {
		c.metrics.start(name)
	}
	return &hook{common: c, name: name, handler: h, slots: newShares(maxInFlight, reservedSlots), buffers: &sync.Pool{New: func() any { return &bytes.Buffer{} }}}
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
	answer, err := encode(rv, &resp)
	if err != nil {
		outcome = outcomeError
		resp = errorf(http.StatusInternalServerError, "encode the answer: %w", err)
		answer, _ = encode(rv, &resp) // it has nothing of the webhook's any more
	}
	took := time.Since(start)
	h.metrics.duration.WithLabelValues(h.name, outcome).Observe(took.Seconds())
	h.log(ctx, rv, resp, outcome, took)
	writeReview(ctx, w, rv, &resp, answer)
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

// turnAway answers a request of which nothing is read.
func (h *hook) turnAway(w http.ResponseWriter, r *http.Request) {
	h.metrics.duration.WithLabelValues(h.name, outcomeBusy).Observe(0)
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	writeStatus(r.Context(), w, http.StatusTooManyRequests, h.busy())
}

// busy is what is said when there are too many requests.
func (h *hook) busy() string {
	return fmt.Sprintf("webhook %s has %d requests in hand, and takes no more until some are answered; try again in a moment", h.name, maxInFlight)
}

// answer decodes r and asks the handler.
func (h *hook) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) (*review, admission.Response, string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &review{}, errorf(http.StatusMethodNotAllowed, "method %s is not served; POST an AdmissionReview", clip(r.Method)), outcomeInvalid
	}
	ctx, giveWay := context.WithCancelCause(ctx)
	defer giveWay(nil)
	a := &arrival{hook: h, w: w, r: r, client: clientOf(r, h.opts.ClientCAFile != ""), giveWay: giveWay, body: h.buffers.Get().(*bytes.Buffer)}
	defer a.leave()
	rv, err := a.review(ctx)
	if err == nil {
		resp, outcome := h.handle(ctx, rv.request)
		switch {
		case outcome == outcomeTimeout && errors.Is(context.Cause(ctx), errGiveWay):
			err = errGiveWay
		case len(resp.Patch) > maxPatch:
			err = fmt.Errorf("%w: what is to be changed has %d bytes", errTooComplex, len(resp.Patch))
		default:
			h.annotate(&resp, &rv.request, outcome)
			return rv, resp, outcome
		}
	} else if r.ProtoMajor == 1 && !a.whole {
		w.Header().Set("Connection", "close") // what is left of the body is not worth reading
	}
	resp, outcome := h.unjudged(err, rv.request.UID != "")
	if rv.request.UID != "" {
		h.annotate(&resp, &rv.request, outcome)
	}
	return rv, resp, outcome
}

// unjudged is the answer to a request that the handler was not asked about, or not to the end.
// What is too much, be it for now or at all, passes if the failure policy lets it; without a uid to
// answer under, that is what the API server makes of an error.
func (h *hook) unjudged(err error, known bool) (admission.Response, string) {
	tooLarge := (*tooLargeError)(nil)
	code, outcome, excuse, message := int32(http.StatusBadRequest), outcomeInvalid, "", err.Error()
	switch {
	case errors.Is(err, errNoRoom):
		code, outcome = http.StatusTooManyRequests, outcomeBusy
		excuse = fmt.Sprintf("it has %d requests in hand: the cloud may be slow", maxInFlight)
		message = h.busy()
	case errors.Is(err, errGiveWay):
		code, outcome = http.StatusTooManyRequests, outcomeBusy
		excuse = "it has too much in hand, most of it from here"
		message = fmt.Sprintf("webhook %s has too much in hand, most of it from this client, and ended a request to make room for others; try again in a moment", h.name)
	case errors.Is(err, errLate), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code, outcome = http.StatusGatewayTimeout, outcomeTimeout
		excuse = "the object did not arrive in time, or there was no room for it"
		message = fmt.Sprintf("webhook %s: the request's body did not arrive in time, or there was no room for it", h.name)
	case errors.As(err, &tooLarge), errors.Is(err, errTooComplex):
		code, excuse = http.StatusRequestEntityTooLarge, err.Error()
	}
	if p := h.opts.FailurePolicy; known && excuse != "" && p != nil && p(h.name) == admissionregistrationv1.Ignore {
		resp := admission.Allowed("")
		return resp.WithWarnings(fmt.Sprintf("webhook %s did not look at this object, as %s", h.name, excuse)), outcome
	}
	return errorf(code, "%s", message), outcome
}

// annotate tells the audit log who asked and what came out, beside what the handler tells.
func (h *hook) annotate(resp *admission.Response, req *admission.Request, outcome string) {
	if resp.AuditAnnotations == nil {
		resp.AuditAnnotations = make(map[string]string, 2)
	}
	resp.AuditAnnotations[auditUser] = clip(req.UserInfo.Username)
	resp.AuditAnnotations[auditOutcome] = outcome
}

// handle asks the handler and survives its panic.
func (h *hook) handle(ctx context.Context, req admission.Request) (resp admission.Response, outcome string) {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("webhook", h.name, "uid", req.UID))
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(panicError(ctx, p), "Webhook panicked", "stack", stack())
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

// stack says where the caller's panic comes from, in short.
func stack() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]) // without this, its caller and what runs that
	var out []string
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") {
			out = append(out, fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line))
		}
		if !more {
			return strings.Join(out, " < ")
		}
	}
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
