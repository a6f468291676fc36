package server

import (
	"context"
	"net/http"
	"time"
)

// maxRequests is how many requests there are at a time over HTTP/2, reservedRequests how many beside them are for
// clients who have few. With HTTP/1.1, there are no more than connections.
const maxRequests, reservedRequests = 1024, 64

// serveOne serves one of so many requests, until its client has taken the answer: one that does not read has it, and what
// goes with it, stay in memory. In place of one too many, the client that has most of them loses one.
func (s *Server) serveOne(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	ctx, end := context.WithCancel(r.Context())
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = control.SetWriteDeadline(time.Unix(1, 0)) // which ends the stream
	})
	defer func() {
		if stop() {
			end()
			return
		}
		<-ended // control must not be used after the request
	}()
	one, err := s.requests.take(ctx, &claim{client: addressOf(r.RemoteAddr), n: 1, arrived: true, giveWay: func(error) { end() }}, false)
	if err != nil {
		end()
		return
	}
	defer one.release()
	s.serve(w, r)
	_ = control.Flush() // it fails where nobody waits for an answer any more
}
