package vsphere

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/sts"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/wire"
)

// podToken is the token of the pod's ServiceAccount.
const podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// enter begins a session of the vSphere API.
func (s *Session) enter(ctx context.Context) (*vim25.Client, error) {
	by, c, err := s.knock(ctx)
	if err != nil {
		return nil, err
	}
	m := session.NewManager(c)
	if by.SharedURL != "" {
		ticket, err := s.ticket(ctx, by)
		if err != nil {
			return nil, err
		}
		return c, s.refused(m.CloneSession(ctx, ticket), by)
	}
	signer, err := s.signer(ctx, c, by)
	if err != nil {
		return nil, err
	}
	if signer != nil {
		return c, s.refused(m.LoginByToken(c.WithHeader(ctx, soap.Header{Security: signer})), by)
	}
	return c, s.refused(m.Login(ctx, url.UserPassword(by.User, by.Password.Reveal())), by)
}

// enterREST begins a session of the API of tags.
func (s *Session) enterREST(ctx context.Context) (*rest.Client, error) {
	by, c, err := s.knock(ctx)
	if err != nil {
		return nil, err
	}
	r := rest.NewClient(c)
	s.bind(r.Client)
	if by.SharedURL != "" {
		return nil, cloudauth.NewError(cloudauth.Misconfigured, "%s: a shared session is for the vSphere API alone, and tags, by which zones are known, need user and password", s.where())
	}
	signer, err := s.signer(ctx, c, by)
	if err != nil {
		return nil, err
	}
	if signer != nil {
		return r, s.refused(r.LoginByToken(r.WithSigner(ctx, signer)), by)
	}
	return r, s.refused(r.Login(ctx, url.UserPassword(by.User, by.Password.Reveal())), by)
}

// knock finds out who is to log in, and asks the vCenter what it is.
func (s *Session) knock(ctx context.Context) (*Credentials, *vim25.Client, error) {
	by, err := s.options.Credentials(ctx)
	if err != nil {
		return nil, nil, cloudauth.NewError(cloudauth.NoCredentials, "%s: %v", s.where(), err)
	}
	sc, err := s.client()
	if err != nil {
		return nil, nil, err
	}
	sc.Namespace, sc.Version = "urn:"+vim25.Namespace, vim25.Version
	c, err := vim25.NewClient(ctx, Answered(sc))
	if err != nil {
		return nil, nil, s.refused(err, &by)
	}
	c.Client = sc
	if have := c.ServiceContent; have.SessionManager == nil || have.ViewManager == nil || have.SearchIndex == nil {
		return nil, nil, cloudauth.NewError(cloudauth.Failed, "%s is no vCenter: it has no sessions, views or searches; check server and port", s.where())
	}
	return &by, c, nil
}

// signer is what signs a login by a certificate, nil where there is none.
func (s *Session) signer(ctx context.Context, c *vim25.Client, by *Credentials) (out *sts.Signer, err error) {
	defer func() { // what tells where tokens are given is read through nil pointers, if it is something else
		if recover() != nil {
			out, err = nil, s.refused(errNoAnswer, by)
		}
	}()
	if block, _ := pem.Decode([]byte(by.User)); block == nil {
		return nil, nil
	}
	cert, err := tls.X509KeyPair([]byte(by.User), []byte(by.Password.Reveal()))
	if err != nil {
		return nil, cloudauth.NewError(cloudauth.Misconfigured, "%s: the user is a certificate, and the password is not its key (both in PEM)", s.where())
	}
	tokens, err := sts.NewClient(ctx, c)
	if err != nil {
		return nil, s.refused(err, by)
	}
	s.bind(tokens.Client)
	tokens.RoundTripper = Answered(tokens.RoundTripper)
	signer, err := tokens.Issue(ctx, sts.TokenRequest{Certificate: &cert, Delegatable: true})
	return signer, s.refused(err, by)
}

// ticket asks the service that keeps a session for a ticket of it.
func (s *Session) ticket(ctx context.Context, by *Credentials) (string, error) {
	token := by.SharedToken
	if token.IsEmpty() {
		data, err := cloudauth.ReadFile(podToken)
		if err != nil {
			return "", cloudauth.NewError(cloudauth.NoCredentials, "%s: no token for the service of shared sessions: %v", s.where(), err)
		}
		token = cloudauth.NewSecret(strings.TrimSpace(string(data)))
	}
	client := wire.NewClient(wire.Options{UserAgent: s.options.UserAgent, Timeout: s.options.RequestTimeout})
	defer client.CloseIdleConnections()
	answer, err := client.Do(ctx, wire.Request{URL: by.SharedURL, Header: http.Header{"Authorization": {"Bearer " + token.Reveal()}}})
	if err != nil {
		return "", cloudauth.NewError(cloudauth.Unreachable, "%s: %s", s.where(), wire.Explain("the service of shared sessions", err, "check vc-session-manager-url", token))
	}
	var out struct{ Token string }
	if answer.Status != http.StatusOK {
		return "", cloudauth.NewError(reasonOf(answer.Status), "%s: the service of shared sessions answers with status %d", s.where(), answer.Status)
	}
	if err := json.Unmarshal(answer.Body, &out); err != nil || out.Token == "" {
		return "", cloudauth.NewError(cloudauth.Failed, "%s: the service of shared sessions answers without a token", s.where())
	}
	return out.Token, nil
}

func reasonOf(status int) cloudauth.Reason {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return cloudauth.Rejected
	case status >= http.StatusInternalServerError:
		return cloudauth.Unreachable
	}
	return cloudauth.Failed
}

var errRedirect = errors.New("it redirects, which is not followed; is a proxy or another service in between?")
