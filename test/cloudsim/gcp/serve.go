package gcp

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim"
)

const maxBody = 4 << 20

// Request is a line of the request log. Service is "metadata", "oauth2", "sts", "iamcredentials" or
// "registry", Action the grant type's short name ("jwt-bearer"), the operation or the path.
type Request = cloudsim.Request

// Fault makes matching requests go wrong.
type Fault = cloudsim.Fault

type reply = cloudsim.Reply

// call is a request being answered.
type call struct {
	r    *http.Request
	host string
	body []byte
}

// The names of the services, from Google's documents: the regional and private ones are STS' and IAM's.
var (
	stsHost      = regexp.MustCompile(`^(sts|[a-z0-9-]+-sts|sts\.[a-z0-9-]+|sts\.[a-z0-9-]+\.rep|sts\.mtls|sts-[a-z0-9]+\.p)\.googleapis\.com$`)
	iamHost      = regexp.MustCompile(`^(iamcredentials|iamcredentials\.[a-z0-9-]+|iamcredentials-[a-z0-9]+\.p)\.googleapis\.com$`)
	registryHost = regexp.MustCompile(`^(([a-z0-9-]+\.)?gcr\.io|[a-z0-9-]+\.pkg\.dev|container\.cloud\.google\.com)$`)
)

// serviceOf returns what a name stands for, "" if Google does not have it.
func serviceOf(host string) string {
	switch {
	case host == "oauth2.googleapis.com", host == "accounts.google.com", host == "www.googleapis.com":
		return "oauth2"
	case stsHost.MatchString(host):
		return "sts"
	case iamHost.MatchString(host):
		return "iamcredentials"
	case registryHost.MatchString(host):
		return "registry"
	case host == "storage.googleapis.com": // of everybody: nothing secret may go there
		return "storage"
	}
	return ""
}

// answer reads one request and finds what answers it.
func (s *Sim) answer(w http.ResponseWriter, r *http.Request, host string) {
	service := serviceOf(host)
	if host == "" {
		service = "metadata"
	}
	if service == "registry" {
		s.serveRegistry(w, r, host)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return
	}
	c := &call{r: r, host: host, body: body}
	action, run := s.route(c, service)
	s.Answer(w, r, Request{Host: host, Service: service, Action: action, UserAgent: r.UserAgent()},
		func() *reply { return s.run(c, service, run) },
		func(status int, code, message string) *reply {
			return errorReply(service, &apiError{status: status, code: code, message: message})
		})
}

type handler func(*Sim, *call) (*reply, error)

func (s *Sim) run(c *call, service string, run handler) *reply {
	if run == nil {
		return errorReply(service, &apiError{status: http.StatusNotFound, code: "NOT_FOUND", message: "no such method"})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := run(s, c)
	var refused *apiError
	switch {
	case errors.As(err, &refused):
		return errorReply(service, refused)
	case err != nil:
		return errorReply(service, &apiError{status: http.StatusInternalServerError, code: "INTERNAL", message: err.Error()})
	}
	return out
}

// route finds the operation and its handler.
func (s *Sim) route(c *call, service string) (string, handler) {
	path := c.r.URL.Path
	switch service {
	case "metadata":
		return path, (*Sim).instanceMetadata
	case "oauth2":
		return grantOf(c), (*Sim).oauthToken
	case "sts":
		if path == "/v1/token" && c.r.Method == http.MethodPost {
			return "token", (*Sim).stsToken
		}
	case "iamcredentials":
		if strings.HasSuffix(path, ":generateAccessToken") && c.r.Method == http.MethodPost {
			return "generateAccessToken", (*Sim).generateAccessToken
		}
	}
	return path, nil
}
