package aws

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const maxBody = 4 << 20

// Request is a line of the request log.
type Request struct {
	// Host is the name that was spoken to; "" when it was the simulator directly.
	Host string
	// Service is "sts", "ecr", "ecr-public", "imds" or "container", and Action the operation
	// ("AssumeRole") or the path.
	Service, Action string
	// Status is the answer's, 0 when there was none.
	Status int
	// Access is the access key that signed it, "" if none did.
	Access string
	// UserAgent is what the client calls itself.
	UserAgent string
}

// call is a request being answered.
type call struct {
	r        *http.Request
	body     []byte
	form     url.Values // of the query protocol
	endpoint endpoint
	action   string
	caller   *caller // nil when nothing is signed
}

type reply struct {
	status      int
	contentType string
	header      http.Header
	body        []byte
}

// direct answers what does not come through the proxy, and opens the way for what does.
func (s *Sim) direct(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		s.connect(w, r)
	case r.URL.IsAbs(): // a proxy's request without TLS
		s.obs.refuse(r.Host)
		http.Error(w, "no such host: "+r.Host, http.StatusBadGateway)
	default:
		s.answer(w, r, "")
	}
}

func (s *Sim) tunneled(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	s.answer(w, r, host)
}

// answer runs one request: log, faults, signature, handler.
func (s *Sim) answer(w http.ResponseWriter, r *http.Request, host string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	c := &call{r: r, body: body}
	handler := s.route(c, host)
	entry, live := s.obs.begin(Request{Host: host, Service: c.endpoint.service, Action: c.action, Access: accessKey(r), UserAgent: r.UserAgent()})
	if !live {
		return
	}
	defer s.obs.inFlight.Done()
	fault := s.obs.fault(c)
	if fault != nil && fault.Latency > 0 && !s.wait(r.Context(), fault.Latency) {
		return
	}
	var out *reply
	switch {
	case fault != nil && fault.Reset:
		panic(http.ErrAbortHandler) // net/http's way to cut a connection
	case fault != nil && fault.Hang:
		s.wait(r.Context(), math.MaxInt64)
		return
	case fault != nil && (fault.Status != 0 || fault.Code != ""):
		out = c.errorReply(&apiError{status: fault.Status, code: fault.Code, message: fault.Message})
	default:
		out = s.run(c, handler)
	}
	if fault != nil && fault.Body != nil {
		out.body = []byte(*fault.Body)
	}
	s.obs.end(entry, out.status)
	for k, v := range out.header {
		w.Header()[k] = v
	}
	if out.contentType != "" {
		w.Header().Set("Content-Type", out.contentType)
	}
	w.Header().Set("X-Amzn-Requestid", requestID())
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body) // the client may have gone
}

type handler struct {
	signed bool
	run    func(*Sim, *call) (*reply, error)
}

func (s *Sim) run(c *call, h *handler) *reply {
	if h == nil {
		return c.errorReply(&apiError{status: http.StatusBadRequest, code: "UnknownOperationException", message: "unknown operation " + c.action})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if h.signed {
		if c.caller, err = s.verify(c); err != nil {
			return c.errorReply(err)
		}
	}
	out, err := h.run(s, c)
	if err != nil {
		return c.errorReply(err)
	}
	return out
}

// route finds service, operation and handler.
func (s *Sim) route(c *call, host string) *handler {
	c.endpoint, _ = endpointOf(host)
	path := c.r.URL.Path
	if host == "" && strings.HasPrefix(path, "/latest/") {
		c.endpoint.service, c.action = "imds", path
		return &handler{run: (*Sim).instanceMetadata}
	}
	if host == "" && strings.HasPrefix(path, "/v1/credentials") {
		c.endpoint.service, c.action = "container", path
		return &handler{run: (*Sim).containerCredentials}
	}
	if target := c.r.Header.Get("X-Amz-Target"); target != "" {
		service, action, _ := strings.Cut(target, ".")
		c.action = action
		names := map[string]string{ecrTarget: "ecr", ecrPublicTarget: "ecr-public"}
		if host == "" {
			c.endpoint = endpoint{service: names[service]}
		}
		if c.endpoint.service != names[service] || action != "GetAuthorizationToken" {
			return nil
		}
		if c.endpoint.service == "ecr-public" {
			return &handler{signed: true, run: (*Sim).publicToken}
		}
		return &handler{signed: true, run: (*Sim).privateToken}
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil || host != "" && c.endpoint.service != "sts" {
		return nil
	}
	c.form, c.action, c.endpoint.service = form, form.Get("Action"), "sts"
	switch c.action {
	case "AssumeRole":
		return &handler{signed: true, run: (*Sim).assumeRole}
	case "AssumeRoleWithWebIdentity":
		return &handler{run: (*Sim).assumeRoleWithWebIdentity}
	case "GetCallerIdentity":
		return &handler{signed: true, run: (*Sim).callerIdentity}
	}
	return nil
}

// Fault makes matching requests go wrong. Empty fields of Service and Action match anything; the last
// fault added that matches applies, alone.
type Fault struct {
	Service, Action string
	// Times is how many requests it hits; 0 is all.
	Times int

	// Latency is waited before anything else happens.
	Latency time.Duration
	// Reset cuts the connection, Hang never answers.
	Reset, Hang bool
	// Status, Code and Message are an error in the service's own format.
	Status        int
	Code, Message string
	// Body replaces the body of the answer.
	Body *string
}

// observer has the log and the faults.
type observer struct {
	inFlight sync.WaitGroup

	mu      sync.Mutex
	log     []*Request
	refused []string
	faults  []*Fault
	left    map[*Fault]int
}

// AddFault adds a fault; the function returned removes it.
func (s *Sim) AddFault(f Fault) (remove func()) {
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	if s.obs.left == nil {
		s.obs.left = map[*Fault]int{}
	}
	s.obs.faults, s.obs.left[&f] = append(s.obs.faults, &f), f.Times
	return func() {
		s.obs.mu.Lock()
		defer s.obs.mu.Unlock()
		s.obs.faults = slices.DeleteFunc(s.obs.faults, func(x *Fault) bool { return x == &f })
	}
}

// Requests returns the log, oldest first.
func (s *Sim) Requests() []Request {
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	out := make([]Request, 0, len(s.obs.log))
	for _, r := range s.obs.log {
		out = append(out, *r)
	}
	return out
}

// Refused returns the hosts that were asked for through the proxy, but are not AWS'.
func (s *Sim) Refused() []string {
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	return slices.Clone(s.obs.refused)
}

// ResetRequests empties the log.
func (s *Sim) ResetRequests() {
	s.obs.mu.Lock()
	defer s.obs.mu.Unlock()
	s.obs.log, s.obs.refused = nil, nil
}

func (o *observer) refuse(host string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused = append(o.refused, host)
}

func (o *observer) begin(r Request) (*Request, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inFlight.Add(1)
	o.log = append(o.log, &r)
	return &r, true
}

func (o *observer) end(r *Request, status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Status = status
}

func (o *observer) fault(c *call) *Fault {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range slices.Backward(o.faults) {
		if f.Service != "" && f.Service != c.endpoint.service || f.Action != "" && f.Action != c.action || f.Times > 0 && o.left[f] == 0 {
			continue
		}
		o.left[f]--
		return f
	}
	return nil
}

// wait lets d pass; false when the client or the simulator went away first.
func (s *Sim) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return false
}

func asAPIError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	return &apiError{status: http.StatusInternalServerError, code: "InternalFailure", message: err.Error()}
}
