package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Service is one OpenStack service below its prefix.
type Service struct {
	// Name is the service's type in the catalog and in the request log.
	Name string
	// Prefix starts its paths, e.g. "/compute".
	Prefix string
	// ErrorBody shapes an error; the content type "" means application/json, a nil body none.
	ErrorBody func(*Call, *Error) (contentType string, body any)
	// Micro is the range of microversions, nil for services without.
	Micro *Micro
	// Routes registers its handlers.
	Routes func(*Router)
	// NoRoute is the answer to an unknown path; nil is a 404 of ErrorBody.
	NoRoute *Error
}

// HandlerFunc answers one call; see the package comment for its contract.
type HandlerFunc func(*Call) (*Reply, error)

// Router registers a service's handlers.
type Router struct {
	srv *API
	svc *Service
	mux *http.ServeMux
}

// Handle registers a handler for callers with a valid token. The pattern is a method and a path
// below the service's prefix, e.g. "GET /v2.0/ports/{id}".
func (r *Router) Handle(pattern string, h HandlerFunc) { r.add(pattern, h, true) }

// Open registers a handler that needs no token.
func (r *Router) Open(pattern string, h HandlerFunc) { r.add(pattern, h, false) }

func (r *Router) add(pattern string, h HandlerFunc, auth bool) {
	method, path, _ := strings.Cut(pattern, " ")
	serve := func(w http.ResponseWriter, req *http.Request) { r.srv.serve(r.svc, h, auth, w, req) }
	r.mux.HandleFunc(method+" "+r.svc.Prefix+path, serve)
	if path == "/{$}" {
		r.mux.HandleFunc(method+" "+r.svc.Prefix, serve)
	}
}

// handler is the whole API.
func (s *API) handler(services []*Service) http.Handler {
	mux := http.NewServeMux()
	for _, svc := range services {
		r := &Router{srv: s, svc: svc, mux: mux}
		svc.Routes(r)
		mux.HandleFunc(svc.Prefix+"/", func(w http.ResponseWriter, req *http.Request) {
			s.serve(svc, NoSuchRoute, false, w, req)
		})
	}
	return mux
}

// NoSuchRoute answers unknown paths.
func NoSuchRoute(c *Call) (*Reply, error) {
	c.Version = ""
	if c.svc.NoRoute != nil {
		return nil, c.svc.NoRoute
	}
	return nil, Errorf(http.StatusNotFound, "", "The resource could not be found.")
}

// Caller is whom a token stands for: the ids of the user and of the project ("" for none), and whether the
// roles there are an administrator's.
type Caller interface {
	User() string
	Project() string
	Admin() bool
}

// Call is one request on its way through a handler.
type Call struct {
	srv     *API
	svc     *Service
	Request *http.Request
	Body    []byte
	Query   url.Values
	// Path is the path in the request log: without prefix, version and project.
	Path string
	// Caller is nil in handlers registered with open.
	Caller Caller
	// Micro is the negotiated microversion's minor number (2.<micro>), for services that have them.
	Micro int
	// Version is the microversion that the answer names; "" for none.
	Version string
}

// Param returns a {name} of the route's pattern.
func (c *Call) Param(name string) string { return c.Request.PathValue(name) }

// Project is the id of the project that the caller's token is scoped to, "" when it is to none.
func (c *Call) Project() string {
	if c.Caller == nil {
		return ""
	}
	return c.Caller.Project()
}

// UserID is the id of the caller.
func (c *Call) UserID() string { return c.Caller.User() }

// Admin reports whether the caller has the role admin.
func (c *Call) Admin() bool { return c.Caller.Admin() }

// Sees reports whether the caller may see an object of the project.
func (c *Call) Sees(projectID string) bool { return c.Admin() || c.Project() == projectID }

// URL is the absolute address of a path below the service's prefix, as the caller reached it.
func (c *Call) URL(path string) string { return c.srv.cloud.URL + c.svc.Prefix + path }

// Self is the absolute address of the call, without its query.
func (c *Call) Self() string { return c.srv.cloud.URL + c.Request.URL.Path }

// Reply is a handler's answer.
type Reply struct {
	Status int
	header http.Header
	// Body is encoded as JSON; nil is no body; []byte is sent as it is, with contentType.
	Body        any
	ContentType string
}

// Answer is a reply with a body.
func Answer(status int, body any) (*Reply, error) { return &Reply{Status: status, Body: body}, nil }

// OK is Answer with status 200.
func OK(body any) (*Reply, error) { return Answer(http.StatusOK, body) }

// NoContent is an answer without a body.
func NoContent() (*Reply, error) { return Answer(http.StatusNoContent, nil) }

// Set adds a header to a reply.
func (r *Reply) Set(key, value string) *Reply {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(key, value)
	return r
}

// encode returns the body's bytes and content type.
func (r *Reply) encode() ([]byte, string, error) {
	switch b := r.Body.(type) {
	case nil:
		return nil, r.ContentType, nil
	case []byte:
		return b, r.ContentType, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.Body); err != nil {
		return nil, "", fmt.Errorf("encode %T: %w", r.Body, err)
	}
	ct := r.ContentType
	if ct == "" {
		ct = "application/json"
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), ct, nil
}

// Error is an error that the API answers with.
type Error struct {
	Status int
	// Kind is the service's word for it where it has one (Neutron: "PortNotFound").
	Kind    string
	Message string
	Header  http.Header
	// Body replaces what the service's errorBody would make of it; contentType goes with it.
	Body        any
	ContentType string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Kind, e.Message) }

// Errorf makes an Error; kind is "" where the service has no word for it.
func Errorf(status int, kind, format string, args ...any) *Error {
	return &Error{Status: status, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// HTMLNotFound is WebOb's answer to a path that has no route, which Nova and Cinder send.
func HTMLNotFound() *Error {
	return &Error{
		Status:      http.StatusNotFound,
		ContentType: "text/html; charset=UTF-8",
		Body: []byte("<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n" +
			"  The resource could not be found.<br /><br />\n\n\n\n </body>\n</html>"),
	}
}

// Object is a JSON object.
type Object = map[string]any
