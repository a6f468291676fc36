package server

import (
	"fmt"
	"net/http"
	"strings"
)

const (
	livezPath  = "/livez"
	readyzPath = "/readyz"
)

// mux routes to the webhooks and the health endpoints.
func (s *Server) mux() http.Handler {
	mux := http.NewServeMux()
	s.mu.Lock()
	for path, h := range s.hooks {
		mux.Handle(path, h)
	}
	s.mu.Unlock()
	mux.HandleFunc(livezPath, func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, nil) })
	mux.HandleFunc(readyzPath, func(w http.ResponseWriter, r *http.Request) { writeHealth(w, s.Ready(r)) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		writeReview(r.Context(), w, &review{}, errorf(http.StatusNotFound,
			"no webhook is served at %q; correct clientConfig.service.path (or the URL) of the webhook configuration: served are %s",
			r.URL.Path, strings.Join(s.paths(), ", ")))
	})
	return mux
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
