package gcp

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// instance is what one instance sees of itself.
type instance struct {
	account string // "" for none
	scopes  []string
	cache   map[string]string // tokens by what was asked for
}

// minLeft is how long a cached token lives on at least: the metadata server gives the same one until then.
const minLeft = 5 * time.Minute

// SetInstance gives the instance a service account with access scopes; "" takes it away.
func (s *Sim) SetInstance(email string, scopes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instance = instance{account: email, scopes: scopes, cache: map[string]string{}}
}

func flavored() http.Header {
	return http.Header{"Metadata-Flavor": {"Google"}, "Server": {"Metadata Server for VM"}}
}

// instanceMetadata is the metadata server.
func (s *Sim) instanceMetadata(c *call) (*reply, error) {
	if c.r.Header.Get("Metadata-Flavor") != "Google" || c.r.Header.Get("X-Forwarded-For") != "" {
		return nil, errorf(http.StatusForbidden, "", "Your client does not have permission to get this URL. Missing Metadata-Flavor:Google header.")
	}
	text := func(body string) (*reply, error) {
		return &reply{Status: http.StatusOK, ContentType: "application/text", Header: flavored(), Body: []byte(body)}, nil
	}
	rest, _ := strings.CutPrefix(c.r.URL.Path, "/computeMetadata/v1/")
	switch rest {
	case "":
		return text("instance/\nproject/\n")
	case "project/project-id":
		return text("project")
	case "universe/universe-domain":
		return text(defaultUniverse)
	}
	rest, ok := strings.CutPrefix(rest, "instance/service-accounts/")
	account, what, _ := strings.Cut(rest, "/")
	known := s.instance.account != "" && (account == "default" || account == s.instance.account)
	switch {
	case ok && rest == "" && s.instance.account != "":
		return text("default/\n" + s.instance.account + "/\n")
	case ok && known && what == "email":
		return text(s.instance.account)
	case ok && known && what == "scopes":
		return text(strings.Join(s.instance.scopes, "\n"))
	case ok && known && what == "token":
		return s.instanceToken(c.r.URL.Query().Get("scopes"))
	}
	return nil, errorf(http.StatusNotFound, "", "The requested URL %s was not found on this server.", c.r.URL.Path)
}

const defaultUniverse = "googleapis.com"

// instanceToken gives a token for those of the scopes asked for that the instance has, or else with
// the instance's own: who asks for others gets a token nevertheless. mu held.
func (s *Sim) instanceToken(wanted string) (*reply, error) {
	var scopes []string
	for _, scope := range strings.Split(wanted, ",") {
		if slices.Contains(s.instance.scopes, scope) || scope != "" && slices.Contains(s.instance.scopes, ScopePlatform) {
			scopes = append(scopes, scope)
		}
	}
	if len(scopes) == 0 {
		scopes = s.instance.scopes
	}
	value := s.instance.cache[wanted]
	t := s.iam.tokens[value]
	if t == nil || time.Until(t.expires) < min(minLeft, s.opts.TokenLifetime/2) {
		value, t = s.newToken(Account(s.instance.account), scopes, s.opts.TokenLifetime)
		s.instance.cache[wanted] = value
	}
	out := jsonReply(http.StatusOK, map[string]any{"access_token": value, "expires_in": int(time.Until(t.expires) / time.Second), "token_type": "Bearer"})
	out.Header = flavored()
	return out, nil
}
