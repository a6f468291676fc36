package loadbalancer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/loadbalancer/schema"
)

// lbKind is one kind of Octavia's objects: how it is named, validated, kept and shown.
type lbKind struct {
	one, many string // keys in bodies
	label     string // in messages: "Load Balancer"
	argument  string // the body's place in messages: "load_balancer.loadbalancer"
	attrs     []schema.Attr
	// filters are query keys that select by an attribute under another name, or by none of the view.
	filters map[string]func(x lbItem) string

	all    func(c *core.Call) ([]lbItem, error)
	get    func(c *core.Call, id string) (lbItem, bool)
	view   func(x lbItem) core.Object
	made   func(x lbItem) core.Object // the answer to its creation; nil: view
	create func(c *core.Call, in dialect.Fields) (lbItem, error)
	update func(c *core.Call, x lbItem, in dialect.Fields) error
	remove func(c *core.Call, x lbItem) error
}

// Service is Octavia's part of the API.
func (s *Octavia) Service() *core.Service {
	return &core.Service{Name: "load-balancer", Prefix: "/load-balancer", ErrorBody: schema.ErrorBody, Routes: s.routes, NoRoute: core.HTMLNotFound()}
}

func (s *Octavia) routes(r *core.Router) {
	s.octaviaAbout(r)
	kinds := map[string]*lbKind{
		"/v2/lbaas/loadbalancers":          s.loadBalancerKind(),
		"/v2/lbaas/listeners":              s.listenerKind(),
		"/v2/lbaas/pools":                  s.poolKind(),
		"/v2/lbaas/pools/{pool}/members":   s.memberKind(),
		"/v2/lbaas/healthmonitors":         s.monitorKind(),
		"/v2.0/lbaas/loadbalancers":        s.loadBalancerKind(),
		"/v2.0/lbaas/listeners":            s.listenerKind(),
		"/v2.0/lbaas/pools":                s.poolKind(),
		"/v2.0/lbaas/pools/{pool}/members": s.memberKind(),
		"/v2.0/lbaas/healthmonitors":       s.monitorKind(),
	}
	for base, k := range kinds {
		r.Handle("GET "+base, k.list)
		r.Handle("POST "+base, k.post)
		r.Handle("GET "+base+"/{id}", k.show)
		r.Handle("PUT "+base+"/{id}", k.put)
		r.Handle("DELETE "+base+"/{id}", k.delete)
	}
	for _, v := range []string{"/v2", "/v2.0"} {
		r.Handle("PUT "+v+"/lbaas/pools/{pool}/members", s.batchMembers)
		r.Handle("GET "+v+"/lbaas/loadbalancers/{id}/status", s.lbStatus)
		r.Handle("GET "+v+"/lbaas/loadbalancers/{id}/statuses", s.lbStatus)
		r.Handle("GET "+v+"/lbaas/loadbalancers/{id}/stats", s.lbStats)
		r.Handle("GET "+v+"/lbaas/listeners/{id}/stats", s.listenerStats)
	}
}

// view holds the attributes that all objects have.
func (e *lbEntity) view(o core.Object) core.Object {
	o["id"], o["name"], o["description"] = e.id, e.name, e.description
	o["project_id"], o["tenant_id"] = e.project, e.project
	o["tags"] = append([]string{}, e.tags...)
	o["provisioning_status"], o["operating_status"], o["admin_state_up"] = e.prov, e.oper, e.adminUp
	o["created_at"], o["updated_at"] = lbTime(e.created), nil
	if !e.updated.IsZero() {
		o["updated_at"] = lbTime(e.updated)
	}
	return o
}

func lbTime(t time.Time) string { return t.Format("2006-01-02T15:04:05") }

func (k *lbKind) missing(id string) *core.Error {
	return schema.ClientFault(http.StatusNotFound, "%s %s not found.", k.label, id)
}

func (k *lbKind) find(c *core.Call, id string) (lbItem, error) {
	x, is := k.get(c, id)
	if !is {
		return nil, k.missing(id)
	}
	if !c.Sees(x.root().project) {
		return nil, forbidden()
	}
	return x, nil
}

func forbidden() *core.Error {
	return schema.ClientFault(http.StatusForbidden, "Policy does not allow this request to be performed.")
}

func (k *lbKind) show(c *core.Call) (*core.Reply, error) {
	x, err := k.find(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{k.one: dialect.SelectFields(k.view(x), c.Query["fields"])})
}

func (k *lbKind) post(c *core.Call) (*core.Reply, error) {
	in, err := schema.Body(c, k.one)
	if err != nil {
		return nil, err
	}
	if err := schema.Check(k.attrs, k.argument, in, true); err != nil {
		return nil, err
	}
	if p := in.Text("project_id"); p != "" && !c.Sees(p) {
		return nil, forbidden()
	}
	x, err := k.create(c, in)
	if err != nil {
		return nil, err
	}
	view := k.view
	if k.made != nil {
		view = k.made
	}
	return core.Answer(http.StatusCreated, core.Object{k.one: view(x)})
}

func (k *lbKind) put(c *core.Call) (*core.Reply, error) {
	in, err := schema.Body(c, k.one)
	if err != nil {
		return nil, err
	}
	if err := schema.Check(k.attrs, k.argument, in, false); err != nil {
		return nil, err
	}
	x, err := k.find(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.update(c, x, in); err != nil {
		return nil, err
	}
	x.root().describe(in)
	x.root().updated = time.Now().UTC()
	return core.OK(core.Object{k.one: k.view(x)})
}

func (k *lbKind) delete(c *core.Call) (*core.Reply, error) {
	x, err := k.find(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.remove(c, x); err != nil {
		return nil, err
	}
	return core.NoContent()
}

// list answers a collection: filters, order, page, fields.
func (k *lbKind) list(c *core.Call) (*core.Reply, error) {
	items, err := k.all(c)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"project_id", "tenant_id"} {
		if v := c.Query.Get(key); v != "" && !c.Sees(v) {
			return nil, forbidden()
		}
	}
	if err := k.checkFilters(c.Query); err != nil {
		return nil, err
	}
	views := []core.Object{}
	for _, x := range items {
		if !c.Sees(x.root().project) {
			continue
		}
		v := k.view(x)
		if k.matches(x, v, c.Query) {
			views = append(views, v)
		}
	}
	if err := sortLB(views, c.Query); err != nil {
		return nil, err
	}
	limit := -1
	if v := c.Query.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil {
			return nil, badLimit(v)
		}
	}
	marker := c.Query.Get("marker")
	out, more, found := core.Page(views, func(v core.Object) string { return dialect.Scalar(v["id"]) }, marker, limit)
	if !found {
		return nil, schema.ClientFault(http.StatusBadRequest, "Supplied pagination marker '%s' is not valid.", marker)
	}
	links := []core.Object{}
	if more && len(out) > 0 {
		q := url.Values{}
		for key, v := range c.Query {
			q[key] = v
		}
		q.Set("marker", dialect.Scalar(out[len(out)-1]["id"]))
		links = append(links, core.Object{"rel": "next", "href": c.Self() + "?" + q.Encode()})
	}
	for i := range out {
		out[i] = dialect.SelectFields(out[i], c.Query["fields"])
	}
	return core.OK(core.Object{k.many: out, k.many + "_links": links})
}

func badLimit(v string) *core.Error {
	return &core.Error{
		Status: http.StatusBadRequest, Message: "limit", ContentType: "text/plain; charset=UTF-8",
		Body: []byte("400 Bad Request\n\nThe server could not comply with the request since it is either malformed or otherwise incorrect.\n\n Supplied pagination limit '" + v + "' is not valid.  "),
	}
}

// lbSteering are the query keys that steer a list and select nothing.
var lbSteering = [...]string{"fields", "limit", "marker", "page_reverse", "sort", "sort_key", "sort_dir"}

// lbTagFilters are the query keys that select by tags.
var lbTagFilters = [...]string{"tags", "tags-any", "not-tags", "not-tags-any"}

// checkFilters refuses what selects by nothing that Octavia knows.
func (k *lbKind) checkFilters(q url.Values) error {
	known := []string{"id", "name", "description", "project_id", "tenant_id", "provisioning_status", "operating_status", "admin_state_up", "created_at", "updated_at"}
	for _, a := range k.attrs {
		if a.Type != schema.Any && a.Type != schema.Tags && a.Type != schema.CIDRs && a.Name != "listener_id" {
			known = append(known, a.Name)
		}
	}
	for key := range q {
		_, own := k.filters[key]
		if !own && !slices.Contains(known, key) && !slices.Contains(lbSteering[:], key) && !slices.Contains(lbTagFilters[:], key) {
			return schema.ClientFault(http.StatusBadRequest, "One or more arguments are either duplicate or invalid")
		}
		if len(q[key]) > 1 && slices.Contains(known, key) { // Octavia hands both to the database, which cannot
			return core.Errorf(http.StatusInternalServerError, "Server", `(pymysql.err.OperationalError) (4078, "Illegal parameter data types varchar and row for operation '='")`)
		}
	}
	return nil
}

func (k *lbKind) matches(x lbItem, v core.Object, q url.Values) bool {
	for key, want := range q {
		switch {
		case slices.Contains(lbSteering[:], key):
		case slices.Contains(lbTagFilters[:], key):
			if !dialect.MatchTags(v, key, want) {
				return false
			}
		case k.filters[key] != nil:
			if !slices.Contains(want, k.filters[key](x)) {
				return false
			}
		default:
			if hit, err := dialect.MatchValue(v[key], want); err != nil || !hit {
				return false
			}
		}
	}
	return true
}

// sortLB orders views by sort=key:dir,… or sort_key and sort_dir.
func sortLB(views []core.Object, q url.Values) error {
	keys, dirs := q["sort_key"], q["sort_dir"]
	for part := range strings.SplitSeq(q.Get("sort"), ",") {
		if part != "" {
			key, dir, _ := strings.Cut(part, ":")
			keys, dirs = append(keys, key), append(dirs, dir)
		}
	}
	for i, key := range slices.Backward(keys) {
		if len(views) > 0 {
			if _, is := views[0][key]; !is {
				return schema.ClientFault(http.StatusBadRequest, "Supplied sort key '%s' is not valid.", key)
			}
		}
		desc := i < len(dirs) && dirs[i] == "desc"
		slices.SortStableFunc(views, func(a, b core.Object) int {
			if desc {
				a, b = b, a
			}
			return strings.Compare(dialect.Scalar(a[key]), dialect.Scalar(b[key]))
		})
	}
	return nil
}

// describe sets what all objects have from a body.
func (e *lbEntity) describe(in dialect.Fields) {
	if in.Has("name") {
		e.name = in.Text("name")
	}
	if in.Has("description") {
		e.description = in.Text("description")
	}
	e.adminUp = in.Boolean("admin_state_up", e.adminUp)
	if in.Has("tags") {
		var tags []string
		if json.Unmarshal(in["tags"], &tags) == nil {
			e.tags = tags
		}
	}
}
