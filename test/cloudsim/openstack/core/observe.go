package core

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Request is one line of the request log.
type Request struct {
	// Service is identity, compute, network, load-balancer, volume, key-manager or image.
	Service string
	Method  string
	// Path is without prefix, version and project: "/servers/detail", "/lbaas/loadbalancers".
	Path  string
	Query url.Values
	// Status is what was answered; 0 while there is no answer, and for a cut connection.
	Status int
	// Time is the request's arrival, Duration the time until the answer.
	Time     time.Time
	Duration time.Duration
}

// Mutation is a call that changes the cloud, as hooks see it: once before it is carried out,
// once after.
type Mutation struct {
	Service, Method, Path string
	// Body is the request's body.
	Body []byte
	// After is false before the call is carried out and true after.
	After bool
	// Status is the answer's status; only set After.
	Status int

	verdict *verdict
}

// Fail answers the call with an error of the service. Before, the call is then not carried out;
// After, it was carried out all the same.
func (m Mutation) Fail(status int, message string) {
	m.verdict.err = Errorf(status, "", "%s", message)
}

// Drop resets the connection instead of answering. Before, the call is then not carried out;
// After, it was carried out and the caller does not learn of it.
func (m Mutation) Drop() { m.verdict.drop = true }

type verdict struct {
	err  error
	drop bool
}

// observer is the request log, the faults and the hooks.
type observer struct {
	inFlight sync.WaitGroup
	done     <-chan struct{} // closed at Close

	mu     sync.Mutex
	log    []*Request
	faults []*activeFault
	hooks  []*hook
}

type hook struct{ fn func(Mutation) }

// begin logs a request; false when the simulator is closed.
func (o *observer) begin(r Request) (*Request, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.done:
		return nil, false
	default:
	}
	o.inFlight.Add(1)
	o.log = append(o.log, &r)
	return &r, true
}

func (o *observer) end(r *Request, status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Status, r.Duration = status, time.Since(r.Time)
}

// runHooks calls all hooks; it holds no lock meanwhile, so that they may block.
func (o *observer) runHooks(c *Call, after bool, status int) verdict {
	o.mu.Lock()
	hooks := slices.Clone(o.hooks)
	o.mu.Unlock()
	var v verdict
	for _, h := range hooks {
		h.fn(Mutation{Service: c.svc.Name, Method: c.Request.Method, Path: c.Path, Body: c.Body, After: after, Status: status, verdict: &v})
	}
	return v
}

// OnMutation adds a hook that is called before and after every call that changes the cloud. It
// may block (until Done, so that Close does not wait for ever), and decide the call's fate through the Mutation's methods. Hooks run concurrently
// for concurrent calls. The function returned removes it.
func (s *API) OnMutation(fn func(Mutation)) (remove func()) {
	h := &hook{fn: fn}
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	s.obs.hooks = append(s.obs.hooks, h)
	return func() {
		s.obs.mu.Lock()
		defer s.obs.mu.Unlock()
		s.obs.hooks = slices.DeleteFunc(s.obs.hooks, func(x *hook) bool { return x == h })
	}
}

// Requests returns the request log in order of arrival.
func (s *API) Requests() []Request {
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	out := make([]Request, len(s.obs.log))
	for i, r := range s.obs.log {
		out[i] = *r
	}
	return out
}

// Count returns how many requests of the log are for the service and method; "" is any.
// HEAD counts as itself.
func (s *API) Count(service, method string) int {
	n := 0
	for _, r := range s.Requests() {
		if (service == "" || r.Service == service) && (method == "" || r.Method == method) {
			n++
		}
	}
	return n
}

// Mutations returns how many requests of the log would change the cloud, tokens left out.
func (s *API) Mutations() int {
	n := 0
	for _, r := range s.Requests() {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Path != "/auth/tokens" {
			n++
		}
	}
	return n
}

// ResetRequests empties the request log.
func (s *API) ResetRequests() {
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	s.obs.log = nil
}
