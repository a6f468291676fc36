package openstack

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lbKind is one kind of Octavia's objects: how it is named, validated, kept and shown.
type lbKind struct {
	one, many string // keys in bodies
	label     string // in messages: "Load Balancer"
	argument  string // the body's place in messages: "load_balancer.loadbalancer"
	attrs     []lbAttr
	// filters are query keys that select by an attribute under another name, or by none of the view.
	filters map[string]func(x lbItem) string

	all    func(c *call) ([]lbItem, error)
	get    func(c *call, id string) (lbItem, bool)
	view   func(x lbItem) object
	made   func(x lbItem) object // the answer to its creation; nil: view
	create func(c *call, in fields) (lbItem, error)
	update func(c *call, x lbItem, in fields) error
	remove func(c *call, x lbItem) error
}

// service is Octavia's part of the API.
func (s *Octavia) service() *service {
	return &service{name: "load-balancer", prefix: "/load-balancer", errorBody: octaviaError, routes: s.routes, noRoute: htmlNotFound()}
}

func (s *Octavia) routes(r *router) {
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
		r.handle("GET "+base, k.list)
		r.handle("POST "+base, k.post)
		r.handle("GET "+base+"/{id}", k.show)
		r.handle("PUT "+base+"/{id}", k.put)
		r.handle("DELETE "+base+"/{id}", k.delete)
	}
	for _, v := range []string{"/v2", "/v2.0"} {
		r.handle("PUT "+v+"/lbaas/pools/{pool}/members", s.batchMembers)
		r.handle("GET "+v+"/lbaas/loadbalancers/{id}/status", s.lbStatus)
		r.handle("GET "+v+"/lbaas/loadbalancers/{id}/statuses", s.lbStatus)
		r.handle("GET "+v+"/lbaas/loadbalancers/{id}/stats", s.lbStats)
		r.handle("GET "+v+"/lbaas/listeners/{id}/stats", s.listenerStats)
	}
}

// view holds the attributes that all objects have.
func (e *lbEntity) view(o object) object {
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

func (k *lbKind) missing(id string) *apiError {
	return clientFault(http.StatusNotFound, "%s %s not found.", k.label, id)
}

func (k *lbKind) find(c *call, id string) (lbItem, error) {
	x, is := k.get(c, id)
	if !is {
		return nil, k.missing(id)
	}
	if !c.sees(x.root().project) {
		return nil, forbidden()
	}
	return x, nil
}

func forbidden() *apiError {
	return clientFault(http.StatusForbidden, "Policy does not allow this request to be performed.")
}

func (k *lbKind) show(c *call) (*reply, error) {
	x, err := k.find(c, c.param("id"))
	if err != nil {
		return nil, err
	}
	return ok(object{k.one: selectFields(k.view(x), c.query["fields"])})
}

func (k *lbKind) post(c *call) (*reply, error) {
	in, err := lbBody(c, k.one)
	if err != nil {
		return nil, err
	}
	if err := checkLB(k.attrs, k.argument, in, true); err != nil {
		return nil, err
	}
	if p := in.text("project_id"); p != "" && !c.sees(p) {
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
	return answer(http.StatusCreated, object{k.one: view(x)})
}

func (k *lbKind) put(c *call) (*reply, error) {
	in, err := lbBody(c, k.one)
	if err != nil {
		return nil, err
	}
	if err := checkLB(k.attrs, k.argument, in, false); err != nil {
		return nil, err
	}
	x, err := k.find(c, c.param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.update(c, x, in); err != nil {
		return nil, err
	}
	x.root().describe(in)
	x.root().updated = time.Now().UTC()
	return ok(object{k.one: k.view(x)})
}

func (k *lbKind) delete(c *call) (*reply, error) {
	x, err := k.find(c, c.param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.remove(c, x); err != nil {
		return nil, err
	}
	return noContent()
}

// list answers a collection: filters, order, page, fields.
func (k *lbKind) list(c *call) (*reply, error) {
	items, err := k.all(c)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"project_id", "tenant_id"} {
		if v := c.query.Get(key); v != "" && !c.sees(v) {
			return nil, forbidden()
		}
	}
	if err := k.checkFilters(c.query); err != nil {
		return nil, err
	}
	views := []object{}
	for _, x := range items {
		if !c.sees(x.root().project) {
			continue
		}
		v := k.view(x)
		if k.matches(x, v, c.query) {
			views = append(views, v)
		}
	}
	if err := sortLB(views, c.query); err != nil {
		return nil, err
	}
	limit := -1
	if v := c.query.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil {
			return nil, badLimit(v)
		}
	}
	marker := c.query.Get("marker")
	out, more, found := page(views, func(v object) string { return scalar(v["id"]) }, marker, limit)
	if !found {
		return nil, clientFault(http.StatusBadRequest, "Supplied pagination marker '%s' is not valid.", marker)
	}
	links := []object{}
	if more && len(out) > 0 {
		q := url.Values{}
		for key, v := range c.query {
			q[key] = v
		}
		q.Set("marker", scalar(out[len(out)-1]["id"]))
		links = append(links, object{"rel": "next", "href": c.self() + "?" + q.Encode()})
	}
	for i := range out {
		out[i] = selectFields(out[i], c.query["fields"])
	}
	return ok(object{k.many: out, k.many + "_links": links})
}

func badLimit(v string) *apiError {
	return &apiError{
		status: http.StatusBadRequest, message: "limit", contentType: "text/plain; charset=UTF-8",
		body: []byte("400 Bad Request\n\nThe server could not comply with the request since it is either malformed or otherwise incorrect.\n\n Supplied pagination limit '" + v + "' is not valid.  "),
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
		if a.typ != lbAny && a.typ != lbTags && a.typ != lbCIDRs && a.name != "listener_id" {
			known = append(known, a.name)
		}
	}
	for key := range q {
		_, own := k.filters[key]
		if !own && !slices.Contains(known, key) && !slices.Contains(lbSteering[:], key) && !slices.Contains(lbTagFilters[:], key) {
			return clientFault(http.StatusBadRequest, "One or more arguments are either duplicate or invalid")
		}
		if len(q[key]) > 1 && slices.Contains(known, key) { // Octavia hands both to the database, which cannot
			return errorf(http.StatusInternalServerError, "Server", `(pymysql.err.OperationalError) (4078, "Illegal parameter data types varchar and row for operation '='")`)
		}
	}
	return nil
}

func (k *lbKind) matches(x lbItem, v object, q url.Values) bool {
	for key, want := range q {
		switch {
		case slices.Contains(lbSteering[:], key):
		case slices.Contains(lbTagFilters[:], key):
			if !matchTags(v, key, want) {
				return false
			}
		case k.filters[key] != nil:
			if !slices.Contains(want, k.filters[key](x)) {
				return false
			}
		default:
			if hit, err := matchValue(v[key], want); err != nil || !hit {
				return false
			}
		}
	}
	return true
}

// sortLB orders views by sort=key:dir,… or sort_key and sort_dir.
func sortLB(views []object, q url.Values) error {
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
				return clientFault(http.StatusBadRequest, "Supplied sort key '%s' is not valid.", key)
			}
		}
		desc := i < len(dirs) && dirs[i] == "desc"
		slices.SortStableFunc(views, func(a, b object) int {
			if desc {
				a, b = b, a
			}
			return strings.Compare(scalar(a[key]), scalar(b[key]))
		})
	}
	return nil
}
