package aws

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

const maxBody = 4 << 20

// Request is a line of the request log. Service is "sts", "ecr", "ecr-public", "ec2", "elb", "elbv2", "imds" or "container",
// Action the operation ("AssumeRole") or the path, and Access the access key that signed it.
type Request = cloudsim.Request

// Fault makes matching requests go wrong.
type Fault = cloudsim.Fault

type reply = cloudsim.Reply

// call is a request being answered.
type call struct {
	r        *http.Request
	body     []byte
	form     url.Values // of the query protocol
	version  string     // of the query protocol, "" for STS
	id       string
	endpoint endpoint
	action   string
	caller   *caller // nil when nothing is signed
}

// answer reads one request and finds what answers it.
func (s *Sim) answer(w http.ResponseWriter, r *http.Request, host string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	c := &call{r: r, body: body, id: requestID()}
	handler := s.route(c, host)
	w.Header().Set("X-Amzn-Requestid", c.id)
	if c.endpoint.service == "ec2" {
		w.Header().Set("Server", "AmazonEC2")
	}
	s.Answer(w, r, Request{Host: host, Service: c.service(), Action: c.action, Access: accessKey(r), UserAgent: r.UserAgent(), Form: c.form},
		func() *reply { return s.run(c, handler) },
		func(status int, code, message string) *reply {
			return c.errorReply(&apiError{status: status, code: code, message: message})
		})
}

type handler struct {
	signed bool
	run    func(*Sim, *call) (*reply, error) // with s.mu held
	// query is in place of run for services with state and locks of their own: run without s.mu.
	query *queryHandler
}

func (s *Sim) run(c *call, h *handler) *reply {
	if h == nil {
		return c.errorReply(c.unknownOperation())
	}
	if h.query != nil {
		return s.runQuery(c, h.query)
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
	if err != nil {
		return nil
	}
	c.form, c.action = form, form.Get("Action")
	if host == "" {
		c.endpoint.service = serviceOf(form.Get("Version"))
	}
	switch c.endpoint.service {
	case "sts":
		return stsHandler(c.action)
	case "ec2", elbService:
		c.version = form.Get("Version")
		return queryOf(c)
	}
	return nil
}

func stsHandler(action string) *handler {
	switch action {
	case "AssumeRole":
		return &handler{signed: true, run: (*Sim).assumeRole}
	case "AssumeRoleWithWebIdentity":
		return &handler{run: (*Sim).assumeRoleWithWebIdentity}
	case "GetCallerIdentity":
		return &handler{signed: true, run: (*Sim).callerIdentity}
	}
	return nil
}

func asAPIError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	var q *query.Error
	if errors.As(err, &q) {
		return &apiError{status: q.Status, code: q.Code, message: q.Message}
	}
	return &apiError{status: http.StatusInternalServerError, code: "InternalFailure", message: err.Error()}
}
