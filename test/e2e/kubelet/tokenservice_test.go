//go:build e2e

package kubelet

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The names of the token service and of the registry to each other.
const tokenIssuer, tokenAudience = "token-service", "token-registry"

// tokenService gives whoever logs in a token for one repository, as docker-registry's token
// authentication has it: the registry refuses a request and names this service, the container
// runtime logs in here, and the registry verifies what was signed here.
type tokenService struct {
	url string
	ca  *authority

	mu sync.Mutex
	// logins are who may pull, by the first part of the repository.
	logins map[string]login
	// pullers are who got a token for a repository, except the owner.
	pullers map[string][]string
}

// login checks a login and says whose it is.
type login func(user, password string) (who string, ok bool)

func startTokenService(t *testing.T, ca *authority) *tokenService {
	t.Helper()
	s := &tokenService{ca: ca, logins: map[string]login{}, pullers: map[string][]string{}}
	server := httptest.NewUnstartedServer(s)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: ca.chain, PrivateKey: ca.key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // clients send logins to no private address that a registry names
	return s
}

// section is what docker-registry's configuration has under auth.
func (s *tokenService) section() string {
	return fmt.Sprintf("{token: {realm: %s/token, service: %s, issuer: %s, rootcertbundle: %s}}", s.url, tokenAudience, tokenIssuer, s.ca.caFile)
}

// allow lets logins pull from the repositories below a path.
func (s *tokenService) allow(path string, l login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins[path] = l
}

type access struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
}

// ServeHTTP implements http.Handler.
func (s *tokenService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scope := strings.Split(r.URL.Query().Get("scope"), ":") // repository:NAME:pull,push
	user, password, ok := r.BasicAuth()
	if len(scope) != 3 || r.URL.Query().Get("service") != tokenAudience || !ok {
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"log in first"}]}`, http.StatusUnauthorized)
		return
	}
	granted := access{Type: "repository", Name: scope[1], Actions: []string{"pull"}}
	if user == owner && password == ownerPassword {
		granted.Actions = append(granted.Actions, "push")
	} else if user, ok = s.puller(scope[1], user, password); !ok {
		http.Error(w, `{"errors":[{"code":"DENIED","message":"this login opens nothing here"}]}`, http.StatusForbidden)
		return
	}
	now := time.Now()
	token, err := s.ca.sign(map[string]any{
		"iss": tokenIssuer, "aud": tokenAudience, "sub": user, "jti": fmt.Sprint(now.UnixNano()),
		"iat": now.Unix(), "nbf": now.Add(-time.Second).Unix(), "exp": now.Add(5 * time.Minute).Unix(), "access": []access{granted},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "access_token": token, "expires_in": 300}) // the client may have gone
}

// puller says who it is that may pull from a repository with this login.
func (s *tokenService) puller(repository, user, password string) (string, bool) {
	path, _, _ := strings.Cut(repository, "/")
	s.mu.Lock()
	check := s.logins[path]
	s.mu.Unlock()
	if check == nil {
		return "", false
	}
	who, ok := check(user, password)
	if ok {
		s.mu.Lock()
		s.pullers[repository] = append(s.pullers[repository], who)
		s.mu.Unlock()
	}
	return who, ok
}

// pulledBy returns who got tokens for a repository.
func (s *tokenService) pulledBy(repository string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Clone(s.pullers[repository]))
}
