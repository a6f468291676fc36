package gcp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

const (
	metadataServer = "the metadata server"
	// metadataAddress is the metadata server's: by its address nobody else can answer for it in DNS.
	metadataAddress = "169.254.169.254"
	// hostVariable is another address of it, as in Google's libraries.
	hostVariable = "GCE_METADATA_HOST"
	flavor       = "Google"

	noMetadata = "there are no Google credentials: outside of Google Cloud set GOOGLE_APPLICATION_CREDENTIALS, on IPv6-only instances " + hostVariable + "=[fd20:ce::254]"
)

// metadata gives the tokens of an instance's service account.
type metadata struct {
	session *Session
	account string
}

func (m metadata) who() string {
	if m.account == defaultAccount {
		return "the instance's service account"
	}
	return "the instance's service account " + m.account
}

// metadataHost checks GCE_METADATA_HOST: tokens come from there without TLS.
func metadataHost() (string, error) {
	text := os.Getenv(hostVariable)
	if text == "" {
		return metadataAddress, nil
	}
	host := text
	if h, _, err := net.SplitHostPort(text); err == nil {
		host = h
	} else if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil && a.Is6() && strings.HasPrefix(text, "[") == strings.HasSuffix(text, "]") {
		host, text = a.String(), "["+a.String()+"]"
	}
	if u, err := url.Parse("http://" + text); err != nil || u.Host != text || !isLocal(host) {
		return "", cloudauth.NewError(cloudauth.Misconfigured, "%s is %q; it has to be the host or host:port of this machine or of a link-local address, because tokens come from there unencrypted", hostVariable, cloudauth.Excerpt(text, 120))
	}
	return text, nil
}

// request is one to the metadata server, for what is below the service account.
func (m metadata) request(host, what string, query url.Values) request {
	where := url.URL{Scheme: "http", Host: host, Path: "/computeMetadata/v1/instance/service-accounts/" + m.account + "/" + what, RawQuery: query.Encode()}
	return request{
		service: metadataServer, url: where.String(), local: true,
		header: http.Header{"Metadata-Flavor": {flavor}}, who: m.who(),
		hint: func(int, string) string {
			return fmt.Sprintf("attach a service account to the instance (%s is asked for)", m.account)
		},
	}
}

// token implements source. Compute Engine gives what the instance's access scopes allow, whatever
// is asked for; other metadata servers (GKE's, Cloud Run's) give the scopes that are asked for.
func (m metadata) token(ctx context.Context, scopes []string) (Token, error) {
	host, err := metadataHost()
	if err != nil {
		return Token{}, err
	}
	r := m.request(host, "token", url.Values{"scopes": {strings.Join(scopes, ",")}})
	then := m.session.now()
	a, err := m.session.send(ctx, r)
	if a.header != nil && a.status < http.StatusInternalServerError && a.header.Get("Metadata-Flavor") != flavor {
		return Token{}, cloudauth.NewError(cloudauth.NoCredentials, "what answers at %s is not Google's metadata server (Metadata-Flavor is missing); %s", host, noMetadata)
	}
	if err != nil {
		return Token{}, err
	}
	t, err := parseToken(a.body, then)
	if err != nil {
		return Token{}, r.noToken()
	}
	if err := m.checkScopes(ctx, host, scopes); err != nil {
		return Token{}, err
	}
	return t, nil
}

// scopesTimeout bounds the question for the instance's access scopes, without whose answer it goes as well.
const scopesTimeout = time.Second

// checkScopes says it if the instance's access scopes do not allow what the token is for: else
// nothing would, before a service refuses it for another reason. What does not say its scopes
// is left alone.
func (m metadata) checkScopes(ctx context.Context, host string, scopes []string) error {
	ctx, cancel := context.WithTimeout(ctx, scopesTimeout)
	defer cancel()
	r := m.request(host, "scopes", nil)
	r.once = true
	a, err := m.session.send(ctx, r)
	if err != nil {
		return nil
	}
	have := slices.DeleteFunc(strings.Fields(string(a.body)), func(line string) bool { return !strings.HasPrefix(line, scopePrefix) })
	for _, scope := range scopes {
		if len(have) > 0 && !covered(scope, have) {
			return cloudauth.NewError(cloudauth.Rejected, "%s lacks the access scope %s and has only %s; add it to the instance, which has to be stopped for that",
				m.who(), shortScope(scope), cloudauth.Excerpt(shortScope(strings.Join(have, " ")), 300))
		}
	}
	return nil
}

func shortScope(text string) string { return strings.ReplaceAll(text, scopePrefix, "") }

// covered reports whether scopes allow what another one does, as far as their names tell.
func covered(scope string, by []string) bool {
	service, access, _ := strings.Cut(strings.TrimPrefix(scope, scopePrefix), ".")
	reading := access == "read_only" || access == "read-only" || access == "readonly"
	for _, b := range by {
		s, a, _ := strings.Cut(strings.TrimPrefix(b, scopePrefix), ".")
		switch {
		case b == scope, s == "cloud-platform" && (a == "" || reading):
			return true
		case s == service && (a == "" || a == "full_control" || reading && a == "read_write"):
			return true
		}
	}
	return false
}
