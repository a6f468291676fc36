package gcp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

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
		return "", errorf(Misconfigured, "%s is %q; it has to be the host or host:port of this machine or of a link-local address, because tokens come from there unencrypted", hostVariable, cloudauth.Excerpt(text, 120))
	}
	return text, nil
}

// token implements source. What the metadata server gives is the instance's own scopes at most.
func (m metadata) token(ctx context.Context, scopes []string) (Token, error) {
	host, err := metadataHost()
	if err != nil {
		return Token{}, err
	}
	where := url.URL{
		Scheme: "http", Host: host,
		Path:     "/computeMetadata/v1/instance/service-accounts/" + m.account + "/token",
		RawQuery: url.Values{"scopes": {strings.Join(scopes, ",")}}.Encode(),
	}
	r := request{
		service: metadataServer, method: http.MethodGet, url: where.String(), local: true,
		header: http.Header{"Metadata-Flavor": {flavor}}, who: m.who(),
		hint: func(status int, _ string) string {
			if status == http.StatusNotFound {
				return fmt.Sprintf("attach a service account to the instance (%s is asked for), with the access scope %s", m.account, strings.Join(scopes, " "))
			}
			return "the instance needs a service account with the access scope " + strings.Join(scopes, " ")
		},
	}
	then := m.session.now()
	a, err := m.session.caller.do(ctx, r)
	if a.header != nil && a.status < http.StatusInternalServerError && a.header.Get("Metadata-Flavor") != flavor {
		return Token{}, errorf(NoCredentials, "what answers at %s is not Google's metadata server (Metadata-Flavor is missing); %s", host, noMetadata)
	}
	if err != nil {
		return Token{}, err
	}
	t, err := parseToken(a.body, then)
	if err != nil {
		return Token{}, r.noToken()
	}
	return t, nil
}
