package cloudsim

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Request is a line of the request log.
type Request struct {
	// Host is the name that was spoken to; "" when it was the simulator directly.
	Host string
	// Service is the cloud's short name for what was asked, and Action the operation or the path.
	Service, Action string
	// Status is the answer's, 0 when there was none.
	Status int
	// Access is as whom the request was made, as far as it says that openly; "" if it does not.
	Access string
	// UserAgent is what the client calls itself.
	UserAgent string
	// Form are the parameters, where the request is one of AWS' query APIs.
	Form url.Values
}

// Reply is what a request is answered with.
type Reply struct {
	Status      int
	ContentType string
	Header      http.Header
	Body        []byte
}

// Fault makes matching requests go wrong. Empty fields of Service and Action match anything; the last
// fault added that matches applies, alone.
type Fault struct {
	Service, Action string
	// When, if it is set, must be true of the request, too.
	When func(Request) bool
	// Times is how many requests it hits; 0 is all.
	Times int

	// Latency is waited before anything else happens.
	Latency time.Duration
	// Reset cuts the connection, Hang never answers. Lost cuts it after the request was carried out.
	Reset, Hang, Lost bool
	// Status, Code and Message are an error in the service's own format.
	Status        int
	Code, Message string
	// Header is added to the answer, and Body replaces its body.
	Header http.Header
	Body   *string
}

// observer has the log and the faults.
type observer struct {
	mu      sync.Mutex
	log     []*Request
	refused []string
	faults  []*Fault
	left    map[*Fault]int
}

// Answer logs a request and answers it: with what run returns, or as a fault wants it. failed gives
// an error of a fault the shape that the service's errors have.
func (f *Front) Answer(w http.ResponseWriter, r *http.Request, entry Request, run func() *Reply, failed func(status int, code, message string) *Reply) {
	f.inFlight.Add(1)
	defer f.inFlight.Done()
	f.obs.begin(&entry)
	fault := f.obs.fault(entry)
	if fault == nil {
		fault = &Fault{}
	}
	if fault.Latency > 0 && !f.wait(r.Context(), fault.Latency) {
		return
	}
	var out *Reply
	switch {
	case fault.Reset:
		panic(http.ErrAbortHandler) // net/http's way to cut a connection
	case fault.Hang:
		f.wait(r.Context(), math.MaxInt64)
		return
	case fault.Status != 0 || fault.Code != "":
		out = failed(fault.Status, fault.Code, fault.Message)
	default:
		out = run()
	}
	if fault.Body != nil {
		out.Body = []byte(*fault.Body)
	}
	f.obs.end(&entry, out.Status)
	if fault.Lost {
		panic(http.ErrAbortHandler)
	}
	for _, header := range []http.Header{out.Header, fault.Header} {
		for k, v := range header {
			w.Header()[k] = v
		}
	}
	if out.ContentType != "" {
		w.Header().Set("Content-Type", out.ContentType)
	}
	w.WriteHeader(out.Status)
	_, _ = w.Write(out.Body) // the client may have gone
}

// wait lets d pass; false when the client or the simulator went away first.
func (f *Front) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-f.ctx.Done():
	}
	return false
}

// AddFault adds a fault; the function returned removes it.
func (f *Front) AddFault(fault Fault) (remove func()) {
	o := &f.obs
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left == nil {
		o.left = map[*Fault]int{}
	}
	o.faults, o.left[&fault] = append(o.faults, &fault), fault.Times
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.faults = slices.DeleteFunc(o.faults, func(x *Fault) bool { return x == &fault })
	}
}

// Requests returns the log, oldest first.
func (f *Front) Requests() []Request {
	f.obs.mu.Lock()
	defer f.obs.mu.Unlock()
	out := make([]Request, 0, len(f.obs.log))
	for _, r := range f.obs.log {
		out = append(out, *r)
	}
	return out
}

// Refused returns the hosts that were asked for through the proxy, but are not the cloud's.
func (f *Front) Refused() []string {
	f.obs.mu.Lock()
	defer f.obs.mu.Unlock()
	return slices.Clone(f.obs.refused)
}

// ResetRequests empties the log.
func (f *Front) ResetRequests() {
	f.obs.mu.Lock()
	defer f.obs.mu.Unlock()
	f.obs.log, f.obs.refused = nil, nil
}

func (o *observer) refuse(host string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, host)
}

func (o *observer) begin(r *Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, r)
}

func (o *observer) end(r *Request, status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Status = status
}

func (o *observer) fault(r Request) *Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range slices.Backward(o.faults) {
		if f.Service != "" && f.Service != r.Service || f.Action != "" && f.Action != r.Action || f.Times > 0 && o.left[f] == 0 ||
			f.When != nil && !f.When(r) {
			continue
		}
		o.left[f]--
		return f
	}
	return nil
}
