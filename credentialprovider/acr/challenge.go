package acr

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// challenge is one of a WWW-Authenticate header (RFC 9110, section 11.6.1).
type challenge struct {
	scheme string            // in lower case
	params map[string]string // by name in lower case
}

// errHeader is a header that does not follow the grammar.
var errHeader = errors.New("malformed")

// parseChallenges reads the values of all WWW-Authenticate headers. Commas separate challenges as well
// as their parameters, so that a name without "=" behind it begins a challenge.
func parseChallenges(values []string) ([]challenge, error) {
	var all []challenge
	for _, v := range values {
		s := scanner{rest: v}
		for {
			s.skip(" \t,")
			if s.rest == "" {
				break
			}
			c, err := s.challenge()
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// scanner reads a header from left to right.
type scanner struct{ rest string }

func (s *scanner) skip(set string) { s.rest = strings.TrimLeft(s.rest, set) }

// token68 are the characters of the token form of a challenge, beside letters and digits.
const token68 = "-._~+/"

// token reads a name (tchar of RFC 9110); "" if there is none.
func (s *scanner) token() string {
	end := strings.IndexFunc(s.rest, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
	if end < 0 {
		end = len(s.rest)
	}
	t := s.rest[:end]
	s.rest = s.rest[end:]
	return t
}

// quoted reads a quoted string behind its first quote.
func (s *scanner) quoted() (string, error) {
	var b strings.Builder
	for i := 0; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '"':
			s.rest = s.rest[i+1:]
			return b.String(), nil
		case c == '\\':
			i++
			if i == len(s.rest) || s.rest[i] < ' ' && s.rest[i] != '\t' || s.rest[i] == 0x7f {
				return "", errHeader
			}
			b.WriteByte(s.rest[i])
		case c < ' ' && c != '\t' || c == 0x7f:
			return "", errHeader
		default:
			b.WriteByte(c)
		}
	}
	return "", errHeader
}

// challenge reads a scheme and what belongs to it.
func (s *scanner) challenge() (challenge, error) {
	c := challenge{scheme: strings.ToLower(s.token()), params: map[string]string{}}
	if c.scheme == "" {
		return c, errHeader
	}
	if s.rest == "" || s.rest[0] == ',' {
		return c, nil
	}
	if s.rest[0] != ' ' {
		return c, errHeader
	}
	s.skip(" ")
	if s.blob() {
		return c, nil
	}
	for {
		s.skip(" \t,")
		if s.rest == "" || s.beginsChallenge() {
			return c, nil
		}
		name, value, err := s.param()
		if err != nil {
			return c, err
		}
		if _, twice := c.params[name]; twice {
			return c, errHeader
		}
		c.params[name] = value
		s.skip(" \t")
		if s.rest != "" && s.rest[0] != ',' {
			return c, errHeader
		}
	}
}

// blob skips a token68, the other form that a challenge can have, and reports whether there was one.
func (s *scanner) blob() bool {
	end := strings.IndexFunc(s.rest, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(token68, r)
	})
	if end < 0 {
		end = len(s.rest)
	}
	if end == 0 {
		return false
	}
	after := strings.TrimLeft(strings.TrimLeft(s.rest[end:], "="), " \t")
	if after != "" && after[0] != ',' {
		return false
	}
	s.rest = after
	return true
}

// beginsChallenge reports whether a new challenge comes, and not one more parameter.
func (s *scanner) beginsChallenge() bool {
	ahead := scanner{rest: s.rest}
	if ahead.token() == "" {
		return false
	}
	ahead.skip(" \t")
	return ahead.rest == "" || ahead.rest[0] != '='
}

// param reads name = value.
func (s *scanner) param() (name, value string, err error) {
	name = strings.ToLower(s.token())
	s.skip(" \t")
	if name == "" || s.rest == "" || s.rest[0] != '=' {
		return "", "", errHeader
	}
	s.rest = s.rest[1:]
	s.skip(" \t")
	if s.rest != "" && s.rest[0] == '"' {
		s.rest = s.rest[1:]
		value, err = s.quoted()
		return name, value, err
	}
	if value = s.token(); value == "" {
		return "", "", errHeader
	}
	return name, value, nil
}

// serviceOf checks that a challenge is of the registry itself and returns the name by which it calls
// itself. The token of Entra ID must not go to whomever else a challenge names.
func serviceOf(r registry, values []string) (string, error) {
	where := "registry " + r.host
	all, err := parseChallenges(values)
	if err != nil {
		return "", cloudauth.NewError(cloudauth.Failed, "%s answers with a malformed challenge (WWW-Authenticate: %s); is a proxy or another registry in between?", where, cloudauth.Excerpt(strings.Join(values, ", "), 200))
	}
	var bearer []challenge
	for _, c := range all {
		if c.scheme == "bearer" {
			bearer = append(bearer, c)
		}
	}
	if len(bearer) != 1 {
		return "", cloudauth.NewError(cloudauth.Failed, "%s answers with %d challenges of the kind Bearer (WWW-Authenticate: %s), and one of ACR with one; is it a registry of ACR?", where, len(bearer), cloudauth.Excerpt(strings.Join(values, ", "), 200))
	}
	own := []string{r.host, r.login}
	realm, service := bearer[0].params["realm"], bearer[0].params["service"]
	u, err := url.Parse(realm)
	if err != nil || u.Scheme != "https" || !slices.Contains(own, withoutPort443(strings.ToLower(u.Host))) || u.Path != "/oauth2/token" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", cloudauth.NewError(cloudauth.Failed, "%s names %q as the place for its tokens, and one of ACR names itself (https://%s/oauth2/token); nothing was sent there", where, cloudauth.Excerpt(realm, 120), r.host)
	}
	if !slices.Contains(own, withoutPort443(strings.ToLower(service))) {
		return "", cloudauth.NewError(cloudauth.Failed, "%s calls itself %q in its challenge; nothing was sent to it", where, cloudauth.Excerpt(service, 120))
	}
	return service, nil
}
