// Package tokensource gives the tokens of pkg/cloudauth/gcp to clients of Google's libraries. It is a package of its own,
// as programs that need no such client are better off without them.
package tokensource

import (
	"context"

	"golang.org/x/oauth2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/gcp"
)

// source is an oauth2.TokenSource.
type source func() (*oauth2.Token, error)

// Token implements oauth2.TokenSource.
func (s source) Token() (*oauth2.Token, error) { return s() }

// New returns an oauth2.TokenSource with the identity and the scopes of a Session, which keeps the tokens: no
// oauth2.ReuseTokenSource is needed around it. As oauth2 has no context, who asks waits until ctx is done.
func New(ctx context.Context, session *gcp.Session) oauth2.TokenSource {
	return source(func() (*oauth2.Token, error) {
		t, err := session.Token(ctx)
		if err != nil {
			return nil, err
		}
		return &oauth2.Token{AccessToken: t.Value.Reveal(), TokenType: "Bearer", Expiry: t.Expires}, nil
	})
}
