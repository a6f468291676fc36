package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/isthmus-cloud/isthmus/pkg/backoff"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	auth "github.com/isthmus-cloud/isthmus/pkg/cloudauth/openstack"
)

// Services, as the catalog names them.
const (
	Compute      = "compute"
	Network      = "network"
	LoadBalancer = "load-balancer"
	BlockStorage = "block-storage"
	KeyManager   = "key-manager"
)

// novaMicroversion is the first in which a server holds its flavor's name (Pike).
const novaMicroversion = "2.47"

// Client is the access to the services of one region. All interfaces of the provider share
// one. It holds no gophercloud client: each operation asks the session for one, so that
// credentials that were reloaded are used at once.
//
// Begin an operation with c.On(ctx, service, "<verb> <object> <id>") and read or change what it is about
// with that. Where gophercloud's packages are called with c.Service, every error goes through WrapError.
// Either must be used for one operation only.
type Client struct {
	Session
	// Kept is cloud.Options'; it is set before all else.
	Kept func(name string) func(at time.Time)
}

// Keep is cloud.Options' Keep.
func (c *Client) Keep(name string) func(at time.Time) {
	return (&cloud.Options{Kept: c.Kept}).Keep(name)
}

// Session is what the provider needs of an auth.Session.
type Session interface {
	Service(ctx context.Context, service string) (*gophercloud.ServiceClient, error)
	// Region is the configured region: the label of Nodes and volumes.
	Region() string
}

// New makes the client of a session.
func New(s Session) *Client { return &Client{Session: s} }

// Service returns a client of the service of that name in the catalog; of Nova at the microversion that
// embeds the flavor's name.
func (c *Client) Service(ctx context.Context, name string) (*gophercloud.ServiceClient, error) {
	sc, err := c.Session.Service(ctx, name)
	if err != nil {
		return nil, authError("reach "+name, err)
	}
	if name == Compute {
		sc.Microversion = novaMicroversion
	}
	return sc, nil
}

// ScopeOf is where sc's answers about servers come from: one project at one endpoint. Nova
// says "not found" of a server of another project or region in the very words that it has
// for one that is gone.
func ScopeOf(sc *gophercloud.ServiceClient) string {
	return "project " + cmp.Or(ProjectOf(sc), "unknown") + " at " + withoutQuery(sc.Endpoint)
}

// ProjectOf is the ID of the project that sc's token is for, "" when that is not known.
func ProjectOf(sc *gophercloud.ServiceClient) string {
	if r, ok := sc.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	}); ok {
		if p, err := r.ExtractProject(); err == nil && p != nil {
			return p.ID
		}
	}
	return ""
}

// RolesOf are the names of the roles that the token of the client has, none where that is not known.
func RolesOf(sc *gophercloud.ServiceClient) (names []string) {
	if r, ok := sc.GetAuthResult().(interface {
		ExtractRoles() ([]tokens.Role, error)
	}); ok {
		roles, err := r.ExtractRoles()
		if err != nil {
			return nil
		}
		for _, role := range roles {
			names = append(names, role.Name)
		}
	}
	return names
}

// InScope adds to KindNotFound where that is so; other errors stay as they are.
func InScope(err error, scope string) error {
	if !cloud.IsNotFound(err) {
		return err
	}
	return &cloud.Error{Kind: cloud.KindNotFound, Scope: scope, Err: err}
}

// Begin puts Traffic before the requests of a session; nil for none. Keystone is left alone by the session
// itself when it refuses, with all that it says about why.
func Begin(t cloud.Traffic) func(service, endpoint string, req *http.Request) (func(*http.Response), error) {
	if t == nil {
		return nil
	}
	return func(service, endpoint string, req *http.Request) (func(*http.Response), error) {
		tokens := service == auth.Keystone
		end, err := t.Begin(req.Context(), cloud.Request{Family: service, Place: endpoint, Op: req.Method, Object: req.URL.Path,
			Mutates: !tokens && req.Method != http.MethodGet && req.Method != http.MethodHead})
		if err != nil {
			return nil, err
		}
		return func(resp *http.Response) {
			if resp == nil {
				end(cloud.Outcome{})
				return
			}
			o := cloud.Outcome{Status: resp.StatusCode, RequestID: requestID(resp.Header)}
			if isThrottling(resp.StatusCode) {
				o.Throttled, o.RetryAfter = !tokens, backoff.Asked(resp.Header, time.Now())
			}
			end(o)
		}, nil
	}
}

// isThrottling reports whether the status is a refusal for too many requests: Nova's of old
// and Swift's middleware's, too.
func isThrottling(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestEntityTooLarge || status == 498
}

// requestID is by what the cloud's operators find a request in its logs.
func requestID(h http.Header) string { return h.Get("X-Openstack-Request-Id") }
