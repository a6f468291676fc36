// Package azcredential gives the tokens of pkg/cloudauth/azure to clients of Azure's SDK. It is a package of its own, as
// programs that need no such client are better off without the SDK.
package azcredential

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	"github.com/isthmus-cloud/isthmus/pkg/cloudauth/azure"
)

// Credential is an azcore.TokenCredential.
type Credential struct {
	session *azure.Session
	tenants []string
}

var _ azcore.TokenCredential = (*Credential)(nil)

// New returns a Credential with the identity of a Session. Tokens are given for its own tenant and for these; a service
// that answers with the name of another one gets none, as it would learn a token of a tenant that is not its own.
func New(session *azure.Session, tenants ...string) *Credential {
	return &Credential{session: session, tenants: tenants}
}

// GetToken implements azcore.TokenCredential. Its errors are *cloudauth.Error.
func (c *Credential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	w, err := c.wanted(o)
	if err != nil {
		return azcore.AccessToken{}, &cloudauth.Error{Reason: cloudauth.Misconfigured, Text: err.Error(), Cause: err}
	}
	get := c.session.TokenFor
	if o.Claims != "" { // they are a service's answer to a token that it has refused, even one that says as much
		get = c.session.RenewFor
	}
	t, err := get(ctx, w)
	if err != nil {
		return azcore.AccessToken{}, err
	}
	return azcore.AccessToken{Token: t.Value.Reveal(), ExpiresOn: t.Expires.UTC()}, nil
}

// wanted says what a client asks for. A managed identity has one tenant, and its metadata service takes no claims.
func (c *Credential) wanted(o policy.TokenRequestOptions) (azure.Wanted, error) {
	if len(o.Scopes) != 1 {
		return azure.Wanted{}, fmt.Errorf("a token for the scopes %q: Azure has tokens for one at a time", o.Scopes)
	}
	audience, isDefault := strings.CutSuffix(o.Scopes[0], "/.default")
	if !isDefault || audience == "" {
		return azure.Wanted{}, fmt.Errorf("a token for the scope %q: for an application it ends in /.default", cloudauth.Excerpt(o.Scopes[0], 120))
	}
	w := azure.Wanted{Audience: audience}
	own := c.session.TenantID()
	if own == "" {
		return w, nil
	}
	if o.TenantID != "" && !strings.EqualFold(o.TenantID, own) {
		if !slices.ContainsFunc(c.tenants, func(t string) bool { return strings.EqualFold(t, o.TenantID) }) {
			return w, fmt.Errorf("a token of tenant %q, which is none of those that %s may log in to", cloudauth.Excerpt(o.TenantID, 80), c.session.Who())
		}
		w.Tenant = o.TenantID
	}
	var err error
	w.Claims, err = claims(o)
	return w, err
}

// claims are what a service wants to be said, and with EnableCAE that the client can be told of what is revoked
// ("cp1", as Microsoft's documentation of continuous access evaluation has it).
func claims(o policy.TokenRequestOptions) (string, error) {
	if !o.EnableCAE {
		return o.Claims, nil
	}
	all := map[string]any{}
	if o.Claims != "" {
		if err := json.Unmarshal([]byte(o.Claims), &all); err != nil {
			return "", fmt.Errorf("the claims that the service asks for are no JSON: %w", err)
		}
	}
	access, ok := all["access_token"].(map[string]any)
	if !ok {
		access = map[string]any{}
	}
	access["xms_cc"] = map[string]any{"values": []string{"cp1"}}
	all["access_token"] = access
	text, err := json.Marshal(all)
	return string(text), err
}
