package core

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const maxBody = 16 << 20

// serve runs one request: log, faults, token, hooks, handler, answer.
func (s *API) serve(svc *Service, h HandlerFunc, auth bool, w http.ResponseWriter, r *http.Request) {
	path := shortPath(svc, r.URL.Path)
	entry, live := s.obs.begin(Request{Service: svc.Name, Method: r.Method, Path: path, Query: r.URL.Query(), Time: time.Now()})
	if !live {
		reset(w)
		return
	}
	defer s.obs.inFlight.Done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the client went away or sent too much; its connection ends here
	}
	c := &Call{srv: s, svc: svc, Request: r, Body: body, Query: r.URL.Query(), Path: path}
	fault := s.obs.fault(c)
	if fault != nil && !s.applyBefore(r.Context(), c, fault, entry, w) {
		return
	}
	out := s.run(c, h, auth)
	if out == nil {
		s.obs.end(entry, 0)
		reset(w)
		return
	}
	if fault != nil {
		fault.applyAfter(out)
	}
	s.obs.end(entry, out.status)
	out.write(w)
}

// run answers a call with its hooks around it; nil means that the connection shall be cut.
func (s *API) run(c *Call, h HandlerFunc, auth bool) *wire {
	if err := s.prepare(c, auth); err != nil {
		return s.errorWire(c, err)
	}
	if !c.mutates() {
		return s.execute(c, h)
	}
	if v := s.obs.runHooks(c, false, 0); v.drop {
		return nil
	} else if v.err != nil {
		return s.errorWire(c, v.err)
	}
	out := s.execute(c, h)
	if v := s.obs.runHooks(c, true, out.status); v.drop {
		return nil
	} else if v.err != nil {
		return s.errorWire(c, v.err)
	}
	return out
}

// prepare checks the token and negotiates the microversion.
func (s *API) prepare(c *Call, auth bool) error {
	if auth {
		caller, valid := s.identity.Caller(c.Request.Header.Get("X-Auth-Token"))
		if !valid {
			return Unauthorized(c)
		}
		c.Caller = caller
	}
	return c.negotiate()
}

// mutates reports whether the call changes the cloud; asking for a token does not.
func (c *Call) mutates() bool {
	return c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead && c.Path != "/auth/tokens" && !strings.HasPrefix(c.Path, "/OS-FEDERATION/")
}

// execute runs the handler and encodes its reply, with the lock held.
func (s *API) execute(c *Call, h HandlerFunc) *wire {
	s.cloud.Lock()
	defer s.cloud.Unlock()
	rep, err := h(c)
	if err != nil {
		return s.errorWire(c, err)
	}
	return s.wire(c, rep)
}

// wire is an answer ready to be sent.
type wire struct {
	status   int
	header   http.Header
	body     []byte
	truncate bool
}

func (s *API) wire(c *Call, rep *Reply) *wire {
	body, ct, err := rep.encode()
	if err != nil {
		return &wire{status: http.StatusInternalServerError, body: []byte(err.Error()), header: http.Header{"Content-Type": {"text/plain"}}}
	}
	out := &wire{status: rep.Status, body: body, header: rep.header.Clone()}
	if out.header == nil {
		out.header = http.Header{}
	}
	if ct != "" {
		out.header.Set("Content-Type", ct)
	}
	id := "req-" + NewID()
	out.header.Set("X-Openstack-Request-Id", id)
	c.describeVersion(out.header, id)
	return out
}

func (s *API) errorWire(c *Call, err error) *wire {
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf(http.StatusInternalServerError, "", "simulator: %s", err)
	}
	rep := &Reply{Status: e.Status}
	if rep.Body = e.Body; rep.Body == nil {
		rep.ContentType, rep.Body = c.svc.ErrorBody(c, e)
	} else {
		rep.ContentType = e.ContentType
	}
	rep.header = e.Header // errorBody may have set it
	return s.wire(c, rep)
}

func (o *wire) write(w http.ResponseWriter) {
	for k, v := range o.header {
		w.Header()[k] = v
	}
	if o.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(len(o.body)))
	}
	if !o.truncate {
		w.WriteHeader(o.status)
		_, _ = w.Write(o.body) // the client may have gone
		return
	}
	w.WriteHeader(o.status)
	_, _ = w.Write(o.body[:len(o.body)/2])
	if f, is := w.(http.Flusher); is {
		f.Flush()
	}
	panic(http.ErrAbortHandler) // net/http's way to cut an answer short
}

// reset ends the client's connection with a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the connection is gone already
	}
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	if t, is := conn.(*net.TCPConn); is {
		_ = t.SetLinger(0)
	}
	_ = conn.Close()
}

var (
	versionSegment = regexp.MustCompile(`^v\d+(\.\d+)?$`)
	// ProjectSegment is a project's id in a path.
	ProjectSegment = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// shortPath is the path as the request log and the faults name it: "/servers/detail" for
// /compute/v2.1/servers/detail, "/volumes" for /volume/v3/<project>/volumes.
func shortPath(svc *Service, path string) string {
	path = strings.TrimPrefix(path, svc.Prefix)
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if versionSegment.MatchString(first) {
		path = "/" + rest
		if first, rest, _ = strings.Cut(rest, "/"); svc.Name == "volume" && ProjectSegment.MatchString(first) {
			path = "/" + rest
		}
	}
	if path == "" {
		return "/"
	}
	return path
}

// AuthenticationRequired is the message of all refusals for lack of a valid identity.
const AuthenticationRequired = "The request you have made requires authentication."

// Unauthorized is the refusal of a missing or invalid token: Keystone's own, and for the other
// services that of the middleware which they all share.
func Unauthorized(c *Call) *Error {
	e := Errorf(http.StatusUnauthorized, "", AuthenticationRequired)
	if c.svc.Name == "identity" {
		return e
	}
	e.Header = http.Header{"Www-Authenticate": {`Keystone uri="` + strings.TrimSuffix(c.srv.identity.AuthURL(), "/v3") + `"`}}
	e.Body = Object{"error": Object{"code": e.Status, "title": "Unauthorized", "message": e.Message}}
	return e
}
