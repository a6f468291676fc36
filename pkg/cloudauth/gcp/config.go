package gcp

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// Config says as whom to log in, and for what.
type Config struct {
	// Scopes are the OAuth scopes of the tokens, at least one.
	Scopes []string
	// CredentialsFile is used in place of GOOGLE_APPLICATION_CREDENTIALS, gcloud's file and the
	// metadata server.
	CredentialsFile string
	// Account is which of the instance's service accounts the metadata server is asked for. With
	// it no credentials file is looked for; without it, it is the default one.
	Account string
	// Federation is used in place of all other sources.
	Federation *Federation
	// Impersonate is the email of a Google service account to be, with what the source gives; ""
	// is none.
	Impersonate string
	// UniverseDomain is the domain of Google's APIs, "googleapis.com" if empty. A credentials file
	// of another universe is refused: it decides on where secrets are sent.
	UniverseDomain string
}

// Federation is a token of an issuer that a workload identity pool trusts.
type Federation struct {
	Token cloudauth.Secret
	// Audience is the provider of the pool, as ProviderAudience returns it.
	Audience string
	// Subject is whose token it is, for errors.
	Subject string
}

// Options are the parts of a Session that are the program's.
type Options struct {
	// UserAgent is sent with every request.
	UserAgent string
	// RequestTimeout bounds each HTTP request; 0 means 30 s.
	RequestTimeout time.Duration
	// Observe is told of every token that was asked for: how long it took, when it ends, and the error. Nil is for no
	// one; it must not block.
	Observe func(took time.Duration, expires time.Time, err error)

	backoff time.Duration         // as wire.Options has it
	remote  func(*http.Transport) // as wire.Options has it
	now     func() time.Time      // nil is time.Now
}

const (
	defaultUniverse = "googleapis.com"
	defaultAccount  = "default"
	scopePrefix     = "https://www.googleapis.com/auth/"
)

// universe is the domain of the APIs.
func (c Config) universe() string {
	if c.UniverseDomain == "" {
		return defaultUniverse
	}
	return c.UniverseDomain
}

func (c Config) check() error {
	var errs []error
	if len(c.Scopes) == 0 {
		errs = append(errs, errors.New("no scope is asked for"))
	}
	for _, scope := range c.Scopes {
		if name, ok := strings.CutPrefix(scope, scopePrefix); !ok || name == "" || strings.ContainsAny(scope, ", \r\n") {
			errs = append(errs, fmt.Errorf("scope %q is none of Google's, such as %scloud-platform", cloudauth.Excerpt(scope, 80), scopePrefix))
		}
	}
	if c.Account != "" {
		errs = append(errs, CheckInstanceAccount(c.Account))
	}
	if c.Account != "" && c.CredentialsFile != "" {
		errs = append(errs, errors.New("an account of the instance and a credentials file are configured; remove one"))
	}
	if c.Impersonate != "" {
		errs = append(errs, CheckAccount(c.Impersonate))
	}
	if !isDomain(c.universe()) {
		errs = append(errs, fmt.Errorf("universe domain %q is no domain, such as %s", cloudauth.Excerpt(c.UniverseDomain, 80), defaultUniverse))
	}
	if f := c.Federation; f != nil {
		if f.Token.IsEmpty() {
			errs = append(errs, errors.New("the token to be exchanged is empty"))
		}
		if normal, err := ProviderAudience(f.Audience, c.UniverseDomain); err != nil || normal != f.Audience {
			errs = append(errs, errors.Join(err, fmt.Errorf("audience %q is not in its normal form", cloudauth.Excerpt(f.Audience, 120))))
		}
	}
	return errors.Join(errs...)
}

const (
	digits    = "0123456789"
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
)

// only reports whether a text is not empty and has no other characters.
func only(text, characters string) bool { return text != "" && strings.Trim(text, characters) == "" }

// isDomain reports whether a text is a domain name of at least two labels.
func isDomain(text string) bool {
	labels := strings.Split(text, ".")
	for _, l := range labels {
		if !only(l, lowerCase+digits+"-") || strings.HasPrefix(l, "-") || strings.HasSuffix(l, "-") {
			return false
		}
	}
	return len(labels) > 1 && len(text) <= 253 && !only(labels[len(labels)-1], digits)
}

// CheckAccount says what is wrong with the email of a Google service account, nil if nothing is.
func CheckAccount(email string) error {
	name, domain, _ := strings.Cut(email, "@")
	if !only(name, lowerCase+digits+"-.") || strings.Trim(name, ".") != name || !isDomain(domain) || !strings.HasSuffix(domain, ".gserviceaccount.com") || len(email) > 320 {
		return fmt.Errorf("%q is no email of a Google service account, such as name@project.iam.gserviceaccount.com", cloudauth.Excerpt(email, 120))
	}
	return nil
}

// CheckInstanceAccount says what is wrong with the name by which the metadata server knows a
// service account, nil if nothing is: its email or an alias.
func CheckInstanceAccount(name string) error {
	if !only(strings.ToLower(name), lowerCase+digits+"-_.@") || strings.Trim(name, ".") == "" || len(name) > 320 {
		return fmt.Errorf("%q is no service account of an instance, such as default or name@project.iam.gserviceaccount.com", cloudauth.Excerpt(name, 120))
	}
	return nil
}

// ProviderAudience returns the audience of a provider of a workload identity pool in its normal
// form. It takes the provider's resource name, with //iam.googleapis.com/ or https://… before it or
// not, and the form of GKE's own pools, identitynamespace:<pool>:<issuer>.
func ProviderAudience(name, universe string) (string, error) {
	host := "//iam." + Config{UniverseDomain: universe}.universe() + "/"
	rest := strings.TrimPrefix(strings.TrimPrefix(name, "https:"), host)
	parts := strings.Split(rest, "/")
	if len(parts) == 8 && parts[0] == "projects" && only(parts[1], digits) && parts[2] == "locations" && parts[3] == "global" &&
		parts[4] == "workloadIdentityPools" && only(parts[5], lowerCase+digits+"-") && parts[6] == "providers" && only(parts[7], lowerCase+digits+"-") {
		return host + rest, nil
	}
	if fleet, ok := strings.CutPrefix(name, "identitynamespace:"); ok {
		pool, issuer, _ := strings.Cut(fleet, ":")
		if isDomain(pool) && strings.HasPrefix(issuer, "https://") && len(name) <= 1000 && !strings.ContainsFunc(issuer, notInURL) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%q is no provider of a workload identity pool, such as projects/<project number>/locations/global/workloadIdentityPools/<pool>/providers/<provider> "+
		"(or identitynamespace:<project>.svc.id.goog:<issuer of the cluster> with GKE)", cloudauth.Excerpt(name, 160))
}

func notInURL(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
