package gcp

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"
)

// Pull says whether user and password may pull from a repository ("project/repository/image"),
// nil if they may.
func (s *Sim) Pull(user, password, repository string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pull(user, password, repository)
}

// pull is Pull. mu held.
func (s *Sim) pull(user, password, repository string) error {
	t := s.iam.tokens[password]
	project, _, _ := strings.Cut(repository, "/")
	switch {
	case user != "oauth2accesstoken" && user != "_token":
		return fmt.Errorf("401: user %q is not known", user)
	case t == nil || time.Now().After(t.expires):
		return errors.New("401: the access token is not valid or has expired")
	case !slices.ContainsFunc([]string{ScopeStorage, ScopeReadOnly, ScopePlatform}, func(scope string) bool { return slices.Contains(t.scopes, scope) }):
		return fmt.Errorf("403: the scopes %v do not allow pulling", t.scopes)
	case !slices.Contains(s.iam.puller[project], t.member):
		return fmt.Errorf("403: Permission \"artifactregistry.repositories.downloadArtifacts\" denied on resource \"projects/%s\" (or it may not exist) for %s", project, t.member)
	}
	return nil
}

// Push puts what a client sends to an image of a repository, as the registry's own API takes it;
// nothing is checked.
func (s *Sim) Push() http.Handler { return s.images }

// serveRegistry is the registry: its token endpoint, and what a token opens.
func (s *Sim) serveRegistry(w http.ResponseWriter, r *http.Request, host string) {
	action := r.URL.Path
	s.Answer(w, r, Request{Host: host, Service: "registry", Action: action, UserAgent: r.UserAgent()},
		func() *reply { return s.registryReply(r, host) },
		func(status int, code, message string) *reply {
			return errorReply("registry", &apiError{status: status, code: code, message: message})
		})
}

func (s *Sim) registryReply(r *http.Request, host string) *reply {
	unauthorized := func(err error) *reply {
		out := errorReply("registry", &apiError{status: http.StatusUnauthorized, code: "UNAUTHORIZED", message: err.Error()})
		out.Header = http.Header{"Www-Authenticate": {fmt.Sprintf(`Bearer realm="https://%s/v2/token",service=%q`, host, host)}}
		return out
	}
	if r.URL.Path == "/v2/token" {
		user, password, _ := r.BasicAuth()
		repository, err := repositoryOf(r.URL.Query().Get("scope"))
		if err == nil {
			err = s.Pull(user, password, repository)
		}
		if err != nil {
			return unauthorized(err)
		}
		return jsonReply(http.StatusOK, map[string]any{"token": s.open(repository), "expires_in": 300})
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	repository, known := s.iam.sessions[token]
	s.mu.Unlock()
	switch {
	case !known:
		return unauthorized(errors.New("authentication required"))
	case r.URL.Path != "/v2/" && !strings.HasPrefix(r.URL.Path, "/v2/"+repository+"/"), r.Method != http.MethodGet && r.Method != http.MethodHead:
		return unauthorized(errors.New("the token is for another repository, or for pulling alone"))
	}
	recorder := httptest.NewRecorder()
	s.images.ServeHTTP(recorder, r)
	return &reply{Status: recorder.Code, Header: recorder.Header(), Body: recorder.Body.Bytes()}
}

// open makes a registry token for a repository.
func (s *Sim) open(repository string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := randomText(64)
	s.iam.sessions[token] = repository
	return token
}

// repositoryOf is the repository in a scope such as "repository:project/repo/image:pull".
func repositoryOf(scope string) (string, error) {
	parts := strings.Split(scope, ":")
	if len(parts) != 3 || parts[0] != "repository" || parts[2] != "pull" {
		return "", fmt.Errorf("scope %q is not for pulling", scope)
	}
	return parts[1], nil
}
