package core

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Fault makes matching requests go wrong. Empty fields of Service, Method and Path match
// anything. What goes wrong can be combined with Latency; otherwise the first of Reset, Hang and
// Status wins. The last fault added that matches applies, alone.
type Fault struct {
	Service, Method string
	// Path is a path of the request log or the start of one at a slash ("/servers" matches
	// "/servers/detail"), or a pattern of path.Match for the whole path.
	Path string
	// Times is how many requests it hits; 0 is all.
	Times int

	// Latency is waited before anything else happens.
	Latency time.Duration
	// Reset cuts the connection without an answer; nothing is carried out.
	Reset bool
	// Hang never answers; nothing is carried out.
	Hang bool
	// Status is answered instead of carrying the call out, with Body or else the service's usual
	// error body; 404 is then the answer to an unknown path, not that of a missing object.
	Status int
	// Body goes with Status, or without it replaces the body of the true answer.
	Body string
	// RetryAfter is sent as Retry-After, in whole seconds rounded up, or as a date if
	// RetryAfterDate is set.
	RetryAfter     time.Duration
	RetryAfterDate bool
	// Truncate sends half of the true answer's body and cuts the connection.
	Truncate bool
	// EmptyList removes all items of the true answer's list, and its links to further pages.
	EmptyList bool
	// ShortList removes the second half of the true answer's list, and its links to further pages.
	ShortList bool
}

type activeFault struct {
	Fault
	left int // for Times > 0
}

// AddFault adds a fault; the function returned removes it.
func (s *API) AddFault(f Fault) (remove func()) {
	a := &activeFault{Fault: f, left: f.Times}
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	s.obs.faults = append(s.obs.faults, a)
	return func() {
		s.obs.mu.Lock()
		defer s.obs.mu.Unlock()
		s.obs.faults = slices.DeleteFunc(s.obs.faults, func(x *activeFault) bool { return x == a })
	}
}

// fault returns a copy of the fault that hits the call, nil when none does.
func (o *observer) fault(c *Call) *Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range slices.Backward(o.faults) {
		if !f.matches(c) || f.Times > 0 && f.left == 0 {
			continue
		}
		f.left--
		hit := f.Fault
		return &hit
	}
	return nil
}

func (f *Fault) matches(c *Call) bool {
	if f.Service != "" && f.Service != c.svc.Name || f.Method != "" && f.Method != c.Request.Method {
		return false
	}
	if f.Path == "" || c.Path == f.Path || strings.HasPrefix(c.Path, strings.TrimSuffix(f.Path, "/")+"/") {
		return true
	}
	hit, err := path.Match(f.Path, c.Path)
	return err == nil && hit
}

// applyBefore does what a fault does instead of the call; true when the call goes on.
func (s *API) applyBefore(ctx context.Context, c *Call, f *Fault, entry *Request, w http.ResponseWriter) bool {
	if f.Latency > 0 && !s.cloud.Wait(ctx, f.Latency) {
		return false
	}
	switch {
	case f.Reset:
		s.obs.end(entry, 0)
		reset(w)
		return false
	case f.Hang:
		s.cloud.Wait(ctx, math.MaxInt64)
		reset(w)
		return false
	case f.Status != 0:
		_, err := NoSuchRoute(c)
		switch f.Status {
		case http.StatusNotFound:
		case http.StatusUnauthorized:
			err = Unauthorized(c)
		default:
			err = Errorf(f.Status, "", "%s", http.StatusText(f.Status))
		}
		out := s.errorWire(c, err)
		f.replaceBody(out)
		f.retryAfter(out)
		s.obs.end(entry, out.status)
		out.write(w)
		return false
	}
	return true
}

func (f *Fault) retryAfter(out *wire) {
	switch {
	case f.RetryAfter > 0 && f.RetryAfterDate:
		at := time.Now().Add(f.RetryAfter + time.Second).UTC() // dates have whole seconds
		out.header.Set("Retry-After", at.Format(http.TimeFormat))
	case f.RetryAfter > 0:
		out.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
}

// replaceBody sends Body, if any, with the content type that it looks like.
func (f *Fault) replaceBody(out *wire) {
	if f.Body == "" {
		return
	}
	out.body = []byte(f.Body)
	switch (strings.TrimSpace(f.Body) + " ")[:1] {
	case "{", "[":
		out.header.Set("Content-Type", "application/json")
	case "<":
		out.header.Set("Content-Type", "text/html; charset=UTF-8")
	default:
		out.header.Set("Content-Type", "text/plain; charset=UTF-8")
	}
}

// applyAfter spoils the true answer.
func (f *Fault) applyAfter(out *wire) {
	f.retryAfter(out)
	f.replaceBody(out)
	if f.EmptyList {
		out.body = shortenList(out.body, func(int) int { return 0 })
	}
	if f.ShortList {
		out.body = shortenList(out.body, func(n int) int { return n / 2 })
	}
	out.truncate = f.Truncate
}

// shortenList keeps the first keep(n) items of each list at the top of a JSON object and
// removes the links to other pages; what is no JSON object stays.
func shortenList(body []byte, keep func(n int) int) []byte {
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) != nil {
		return body
	}
	for key, raw := range doc {
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil || items == nil {
			continue
		}
		if strings.HasSuffix(key, "_links") {
			delete(doc, key)
			continue
		}
		short, err := json.Marshal(items[:keep(len(items))])
		if err != nil {
			return body
		}
		doc[key] = short
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return body
	}
	return out
}
