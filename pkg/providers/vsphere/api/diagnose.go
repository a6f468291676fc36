package api

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Datacenters are those that the configuration names, each found or an error: KindInvalid where not just one has the name. It is empty where
// the configuration names none.
func (c *Client) Datacenters(ctx context.Context) (names []string, found []cloud.Result[Ref]) {
	for _, name := range c.datacenters {
		hits, err := c.named(ctx, []string{name})
		r := cloud.Result[Ref]{Err: err}
		if err == nil {
			r.Value = hits[0]
		}
		names, found = append(names, name), append(found, r)
	}
	return names, found
}

// Lacking are those of the privileges that the user of the session lacks on each object, or on the root folder where there is none.
// KindDenied where it may not even be asked.
func (c *Client) Lacking(ctx context.Context, on []Ref, privileges []string) (map[Ref][]string, error) {
	var answer *types.HasPrivilegeOnEntitiesResponse
	own, err := c.ownSession(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.soap(ctx, "HasPrivilegeOnEntities", "", func(v *vim25.Client) (err error) {
		if len(on) == 0 {
			on = []Ref{root(v)}
		}
		answer, err = methods.HasPrivilegeOnEntities(ctx, v, &types.HasPrivilegeOnEntities{This: *v.ServiceContent.AuthorizationManager, Entity: on, SessionId: own, PrivId: privileges})
		return err
	}); err != nil {
		return nil, err
	}
	lacking := map[Ref][]string{}
	for _, e := range answer.Returnval {
		for _, p := range e.PrivAvailability {
			if !p.IsGranted && slices.Contains(privileges, p.PrivId) {
				lacking[e.Entity] = append(lacking[e.Entity], p.PrivId)
			}
		}
	}
	return lacking, nil
}

// ownSession is the key of the session, by which its privileges are asked for.
func (c *Client) ownSession(ctx context.Context) (key string, err error) {
	var manager Ref
	if err := c.session.SOAP(ctx, func(v *vim25.Client) error { manager = *v.ServiceContent.SessionManager; return nil }); err != nil {
		return "", c.failed("find the session", err)
	}
	found, err := c.collect(ctx, "the session", []types.ObjectSpec{{Obj: manager}}, []types.PropertySpec{{Type: "SessionManager", PathSet: []string{"currentSession"}}})
	if err != nil {
		return "", err
	}
	for i := range found {
		for _, p := range found[i].PropSet {
			if s, ok := p.Val.(types.UserSession); ok {
				return s.Key, nil
			}
		}
	}
	return "", cloud.Errorf(cloud.KindDenied, "%s does not show the own session", c.place)
}
