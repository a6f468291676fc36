package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

const (
	livezPath  = "/livez"
	readyzPath = "/readyz"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		s.serve(w, r)
		return
	}
	s.serveOne(w, r)
}

// serve routes to the webhooks and the health endpoints. What is not for a webhook, or
// not of a client that may ask, is refused by HTTP status: the API server then does as the
// webhook configuration's failurePolicy says.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && s.state.Load() == stateEnding {
		w.Header().Set("Connection", "close") // HTTP/2 has GOAWAY for that
	}
	h := s.hooks[r.URL.Path]
	switch {
	case h != nil:
		if s.clients != nil {
			if refused := s.clients.refuse(r); refused != nil {
				writeStatus(r.Context(), w, refused.status, refused.message)
				return
			}
		}
		client := clientOf(r, s.clients != nil)
		if !s.crowd.enter(client, s.latecomers.has(client)) {
			h.turnAway(w, r)
			return
		}
		defer s.crowd.leave(client)
		h.ServeHTTP(w, r)
	case r.URL.Path == livezPath:
		writeHealth(w, nil)
	case r.URL.Path == readyzPath:
		writeHealth(w, s.Ready(r))
	default:
		message := fmt.Sprintf("no webhook is served at %q; correct clientConfig.service.path (or the URL) of the webhook configuration: served are %s",
			clip(r.URL.Path), strings.Join(s.paths(), ", "))
		if r.Method == http.MethodPost { // as the API server does
			s.notices.log(klog.FromContext(r.Context()), "path", "Request for a webhook that is not served", "client", r.RemoteAddr, "message", message)
		}
		writeStatus(r.Context(), w, http.StatusNotFound, message)
	}
}

// writeStatus answers with a Status, whose message the API server repeats, as it does not
// with that of any other body that comes with an HTTP status.
func writeStatus(ctx context.Context, w http.ResponseWriter, code int, message string) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Message: message, Reason: reasonOf(code), Code: int32(code), //nolint:gosec // an HTTP status
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(status); err != nil {
		klog.FromContext(ctx).V(2).Info("Webhook answer could not be written", "reason", err.Error())
	}
}

func writeHealth(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, err) // a prober that went away needs no answer
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
