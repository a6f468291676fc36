package openstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// service is one OpenStack service below its prefix.
type service struct {
	// name is the service's type in the catalog and in the request log.
	name string
	// prefix starts its paths, e.g. "/compute".
	prefix string
	// errorBody shapes an error; the content type "" means application/json, a nil body none.
	errorBody func(*call, *apiError) (contentType string, body any)
	// micro is the range of microversions, nil for services without.
	micro *microRange
	// routes registers its handlers.
	routes func(*router)
	// noRoute is the answer to an unknown path; nil is a 404 of errorBody.
	noRoute *apiError
}

// handlerFunc answers one call; see the package comment for its contract.
type handlerFunc func(*call) (*reply, error)

// router registers a service's handlers.
type router struct {
	srv *API
	svc *service
	mux *http.ServeMux
}

// handle registers a handler for callers with a valid token. The pattern is a method and a path
// below the service's prefix, e.g. "GET /v2.0/ports/{id}".
func (r *router) handle(pattern string, h handlerFunc) { r.add(pattern, h, true) }

// open registers a handler that needs no token.
func (r *router) open(pattern string, h handlerFunc) { r.add(pattern, h, false) }

func (r *router) add(pattern string, h handlerFunc, auth bool) {
	method, path, _ := strings.Cut(pattern, " ")
	serve := func(w http.ResponseWriter, req *http.Request) { r.srv.serve(r.svc, h, auth, w, req) }
	r.mux.HandleFunc(method+" "+r.svc.prefix+path, serve)
	if path == "/{$}" {
		r.mux.HandleFunc(method+" "+r.svc.prefix, serve)
	}
}

// handler is the whole API.
func (s *API) handler(services []*service) http.Handler {
	mux := http.NewServeMux()
	for _, svc := range services {
		r := &router{srv: s, svc: svc, mux: mux}
		svc.routes(r)
		mux.HandleFunc(svc.prefix+"/", func(w http.ResponseWriter, req *http.Request) {
			s.serve(svc, noSuchRoute, false, w, req)
		})
	}
	return mux
}

func noSuchRoute(c *call) (*reply, error) {
	c.version = ""
	if c.svc.noRoute != nil {
		return nil, c.svc.noRoute
	}
	return nil, errorf(http.StatusNotFound, "", "The resource could not be found.")
}

// Caller is whom a token stands for: the ids of the user and of the project ("" for none), and whether the
// roles there are an administrator's.
type Caller interface {
	User() string
	Project() string
	Admin() bool
}

// call is one request on its way through a handler.
type call struct {
	srv   *API
	svc   *service
	r     *http.Request
	body  []byte
	query url.Values
	// path is the path in the request log: without prefix, version and project.
	path string
	// caller is nil in handlers registered with open.
	caller Caller
	// micro is the negotiated microversion's minor number (2.<micro>), for services that have them.
	micro int
	// version is the microversion that the answer names; "" for none.
	version string
}

// param returns a {name} of the route's pattern.
func (c *call) param(name string) string { return c.r.PathValue(name) }

// project is the id of the project that the caller's token is scoped to, "" when it is to none.
func (c *call) project() string {
	if c.caller == nil {
		return ""
	}
	return c.caller.Project()
}

// userID is the id of the caller.
func (c *call) userID() string { return c.caller.User() }

// admin reports whether the caller has the role admin.
func (c *call) admin() bool { return c.caller.Admin() }

// sees reports whether the caller may see an object of the project.
func (c *call) sees(projectID string) bool { return c.admin() || c.project() == projectID }

// url is the absolute address of a path below the service's prefix, as the caller reached it.
func (c *call) url(path string) string { return c.srv.cloud.url + c.svc.prefix + path }

// self is the absolute address of the call, without its query.
func (c *call) self() string { return c.srv.cloud.url + c.r.URL.Path }

// reply is a handler's answer.
type reply struct {
	status int
	header http.Header
	// body is encoded as JSON; nil is no body; []byte is sent as it is, with contentType.
	body        any
	contentType string
}

func answer(status int, body any) (*reply, error) { return &reply{status: status, body: body}, nil }

func ok(body any) (*reply, error) { return answer(http.StatusOK, body) }

func noContent() (*reply, error) { return answer(http.StatusNoContent, nil) }

// set adds a header to a reply.
func (r *reply) set(key, value string) *reply {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(key, value)
	return r
}

// encode returns the body's bytes and content type.
func (r *reply) encode() ([]byte, string, error) {
	switch b := r.body.(type) {
	case nil:
		return nil, r.contentType, nil
	case []byte:
		return b, r.contentType, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.body); err != nil {
		return nil, "", fmt.Errorf("encode %T: %w", r.body, err)
	}
	ct := r.contentType
	if ct == "" {
		ct = "application/json"
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), ct, nil
}

// apiError is an error that the API answers with.
type apiError struct {
	status int
	// kind is the service's word for it where it has one (Neutron: "PortNotFound").
	kind    string
	message string
	header  http.Header
	// body replaces what the service's errorBody would make of it; contentType goes with it.
	body        any
	contentType string
}

// Error implements error.
func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.kind, e.message) }

func errorf(status int, kind, format string, args ...any) *apiError {
	return &apiError{status: status, kind: kind, message: fmt.Sprintf(format, args...)}
}

// htmlNotFound is WebOb's answer to a path that has no route, which Nova and Cinder send.
func htmlNotFound() *apiError {
	return &apiError{
		status:      http.StatusNotFound,
		contentType: "text/html; charset=UTF-8",
		body: []byte("<html>\n <head>\n  <title>404 Not Found</title>\n </head>\n <body>\n  <h1>404 Not Found</h1>\n" +
			"  The resource could not be found.<br /><br />\n\n\n\n </body>\n</html>"),
	}
}

// object is a JSON object.
type object = map[string]any
