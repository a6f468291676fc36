package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// hook serves one admission.Handler.
type hook struct {
	path    string
	handler admission.Handler
	opts    Options
	metrics *metrics
}

// ServeHTTP answers every request with an AdmissionReview.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	inFlight := h.metrics.inFlight.WithLabelValues(h.path)
	inFlight.Inc()
	defer inFlight.Dec()

	ctx, cancel := context.WithDeadline(r.Context(), start.Add(h.timeout(r)))
	defer cancel()
	rv, resp, outcome := h.answer(ctx, w, r)
	took := time.Since(start)
	h.metrics.duration.WithLabelValues(h.path, outcome).Observe(took.Seconds())
	logger := klog.FromContext(ctx).WithValues("webhook", h.path, "uid", rv.request.UID, "operation", rv.request.Operation,
		"object", klog.KRef(rv.request.Namespace, rv.request.Name), "outcome", outcome, "duration", took)
	if outcome == outcomeAllowed || outcome == outcomePatched {
		logger.V(4).Info("Answered admission request")
	} else {
		logger.V(2).Info("Refused admission request", "code", resp.Result.Code, "message", resp.Result.Message)
	}
	writeReview(ctx, w, rv, resp)
}

// answer decodes r and asks the handler.
func (h *hook) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) (*review, admission.Response, string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return &review{}, errorf(http.StatusMethodNotAllowed, "method %s is not served; POST an AdmissionReview", clip(r.Method)), outcomeInvalid
	}
	body, err := h.readBody(r)
	if err != nil {
		var tooLarge *tooLargeError
		if errors.As(err, &tooLarge) {
			w.Header().Set("Connection", "close") // what is left of the body is not worth reading
			return &review{}, errorf(http.StatusRequestEntityTooLarge, "%w", err), outcomeInvalid
		}
		return &review{}, errorf(http.StatusBadRequest, "read the request's body: %w", err), outcomeInvalid
	}
	rv, err := decodeReview(r.Header.Get("Content-Type"), body)
	if err != nil {
		return rv, errorf(http.StatusBadRequest, "%w", err), outcomeInvalid
	}
	resp, outcome := h.handle(ctx, rv.request)
	return rv, resp, outcome
}

type tooLargeError struct{ limit int64 }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the body is larger than the limit of %d bytes", e.limit)
}

func (h *hook) readBody(r *http.Request) ([]byte, error) {
	limit := h.opts.MaxBodyBytes
	if r.ContentLength > limit {
		return nil, &tooLargeError{limit}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > limit {
		return nil, &tooLargeError{limit}
	}
	return body, nil
}

// handle asks the handler and survives its panic.
func (h *hook) handle(ctx context.Context, req admission.Request) (resp admission.Response, outcome string) {
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("%v", p), "Webhook panicked", "webhook", h.path, "uid", req.UID, "stack", string(debug.Stack()))
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

// timeout is how long the handler may take: what the API server grants in the query's
// timeout, less what it takes to deliver the answer.
func (h *hook) timeout(r *http.Request) time.Duration {
	granted := h.opts.RequestTimeout
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		granted = min(asked, 30*time.Second) // no webhook configuration grants more
	}
	return granted - min(granted/10, 500*time.Millisecond)
}
