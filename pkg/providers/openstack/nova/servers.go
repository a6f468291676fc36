package nova

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/places"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// novaCellsMicroversion is the first in which servers of a cell that is down are listed (as
// stubs without a name) instead of being left out without a word (Stein).
const novaCellsMicroversion = "2.69"

// readServers answers every target: few one by one, many from one list. From a list,
// KindNotFound only means "not in it".
func (i *Instances) readServers(ctx context.Context, targets []target) map[target]cloud.Result[*server] {
	out := make(map[target]cloud.Result[*server], len(targets))
	if len(targets) <= max(fewServers, int(i.pages.Load())) {
		for _, t := range targets {
			s, err := i.getServer(ctx, t)
			out[t] = cloud.Result[*server]{Value: s, Err: err}
		}
		return out
	}
	sc, servers, err := i.listServers(ctx, nil)
	if err != nil {
		for _, t := range targets {
			out[t] = cloud.Result[*server]{Err: err}
		}
		return out
	}
	i.pages.Store(int64(len(servers)+api.PageSize-1) / api.PageSize)
	scope := api.ScopeOf(sc)
	byID, byName := make(map[string]*server, len(servers)), make(map[string][]*server, len(servers))
	for n := range servers {
		s := &servers[n]
		s.scope = scope
		if byID[s.ID] == nil { // pages may overlap while servers come and go
			byID[s.ID] = s
			byName[s.Name] = append(byName[s.Name], s)
		}
	}
	for _, t := range targets {
		s, err := pick(t, byID, byName)
		out[t] = cloud.Result[*server]{Value: s, Err: api.InScope(err, scope)}
	}
	return out
}

// pick finds a target's server in a list.
func pick(t target, byID map[string]*server, byName map[string][]*server) (*server, error) {
	if t.id == "" {
		if s := byID[t.machine]; s != nil {
			return ofThatName(t, s)
		}
		return theOne(t, byName[t.name])
	}
	if s := byID[t.id]; s != nil {
		return s, nil
	}
	return theOne(t, nil)
}

// ofThatName checks that the server with a machine's UUID bears the Node's name, which is
// what the API server vouches for: the UUID is only what the kubelet says.
func ofThatName(t target, s *server) (*server, error) {
	if s.Name == t.name {
		return s, nil
	}
	return nil, cloud.Errorf(cloud.KindConflict, "the machine of node %s is server %s, whose name is %q; rename the server, or set the Node's provider ID",
		t.name, s.ID, s.Name)
}

// theOne picks a target's server from the candidates.
func theOne(t target, candidates []*server) (*server, error) {
	switch len(candidates) {
	case 0:
		return nil, cloud.Errorf(cloud.KindNotFound, "server %s is not in the list of servers", t)
	case 1:
		return candidates[0], nil
	}
	return nil, cloud.Errorf(cloud.KindConflict, "%d servers are named %s (%s and %s); rename all but one, or set the Node's provider ID",
		len(candidates), t.name, candidates[0].ID, candidates[1].ID)
}

// listServers also returns the client that it used, to tell where the servers are.
func (i *Instances) listServers(ctx context.Context, query url.Values) (*gophercloud.ServiceClient, []server, error) {
	const op = "list servers"
	sc, err := i.c.Compute(ctx)
	if err != nil {
		return nil, nil, err
	}
	servers, err := api.ListAll[server](ctx, sc, "servers/detail", query, "servers")
	return sc, servers, api.WrapError(op, err)
}

// getServer reads one server: by ID directly, by name from a list filtered by it. KindNotFound
// is final for an ID; for a name it means "not in the filtered list", see confirmAbsent.
func (i *Instances) getServer(ctx context.Context, t target) (*server, error) {
	if t.id != "" {
		return i.getServerByID(ctx, t.id)
	}
	if t.machine != "" {
		s, err := i.getServerByID(ctx, t.machine)
		if err == nil {
			return ofThatName(t, s)
		} else if !cloud.IsNotFound(err) {
			return nil, err
		}
	}
	return i.getServerByName(ctx, t)
}

// Exists is an error unless there is a server of that ID: KindNotFound where Nova says so.
func (i *Instances) Exists(ctx context.Context, id string) error {
	_, err := i.getServerByID(ctx, id)
	return err
}

func (i *Instances) getServerByID(ctx context.Context, id string) (*server, error) {
	sc, err := i.c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	scope := api.ScopeOf(sc)
	s, err := getServerByID(ctx, sc, id)
	if err != nil {
		return nil, api.InScope(err, scope)
	}
	s.scope = scope
	return s, nil
}

func (i *Instances) getServerByName(ctx context.Context, t target) (*server, error) {
	// Nova takes the name as a regular expression.
	sc, servers, err := i.listServers(ctx, url.Values{"name": {"^" + regexp.QuoteMeta(t.name) + "$"}})
	if err != nil {
		return nil, err
	}
	var exact []*server
	for n := range servers {
		s := &servers[n]
		if s.Name == t.name && !slices.ContainsFunc(exact, func(o *server) bool { return o.ID == s.ID }) {
			exact = append(exact, s)
		}
	}
	s, err := theOne(t, exact)
	if err != nil {
		return nil, api.InScope(err, api.ScopeOf(sc))
	}
	s.scope = api.ScopeOf(sc)
	return s, nil
}

func getServerByID(ctx context.Context, sc *gophercloud.ServiceClient, id string) (*server, error) {
	op := "get server " + id
	var doc struct {
		Server *server `json:"server"`
	}
	if err := api.GetJSON(ctx, sc, sc.ServiceURL("servers", id), &doc); err != nil {
		return nil, api.WrapError(op, err)
	}
	if doc.Server == nil || !strings.EqualFold(doc.Server.ID, id) {
		return nil, cloud.Errorf(cloud.KindUnknown, "%s: the answer is not about this server", op)
	}
	return doc.Server, nil
}

// confirmAbsent decides whether there is no server of that name, after a list filtered by
// name was empty. A Node is deleted on KindNotFound, and an empty list is weak evidence: an
// unknown filter, another project's credentials or a cell that is down look just like it.
// So all servers are listed once more without any filter, and the name counts as absent
// only if
//
//   - that list is not empty: other credentials may yield an empty one (and where they yield
//     another project's servers, the scope tells);
//   - Nova lists servers of cells that are down (microversion 2.69), and there is none: such
//     a server has no name in the list and could be the one;
//   - no server has the name or the machine's UUID there, else the two lists contradict each other.
//
// Everything else is KindUnknown. A server that the full list does hold is returned.
func (i *Instances) confirmAbsent(ctx context.Context, t target) (*server, error) {
	sc, err := i.c.Compute(ctx)
	if err != nil {
		return nil, err
	}
	sc.Microversion = novaCellsMicroversion
	op := "confirm that no server is named " + t.name
	all, err := api.ListAll[server](ctx, sc, "servers/detail", nil, "servers")
	if err != nil {
		return nil, api.WrapError(op, err)
	}
	if len(all) == 0 {
		return nil, cloud.Errorf(cloud.KindUnknown, "%s: %w; are the credentials of the cluster's project?", op, places.ErrEmpty)
	}
	for n := range all {
		switch s := &all[n]; {
		case s.Name == "":
			return nil, cloud.Errorf(cloud.KindUnknown, "%s: server %s has no name in the list (status %s), its cell may be down", op, s.ID, s.Status)
		case s.Name == t.name:
			return i.getServerByID(ctx, s.ID)
		case s.ID == t.machine:
			return ofThatName(t, s)
		}
	}
	return nil, api.InScope(cloud.Errorf(cloud.KindNotFound, "no server is named %s", t.name), api.ScopeOf(sc))
}
