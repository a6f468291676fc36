package openstack

import (
	"net/http"
	"strconv"
	"strings"
)

// netKind is one kind of Neutron's objects: how it is named, validated, kept and shown.
type netKind struct {
	one, many string // keys in bodies
	path      string // in addresses
	attrs     []attr
	missing   func(id string) *apiError

	all  func() []netItem // in order of id
	get  func(id string) (netItem, bool)
	view func(c *call, x netItem) object
	// visible says who may see an object besides its project and the admin; nil: nobody.
	visible func(x netItem) bool
	// narrow may answer a list's filters from an index; nil or false: all items are looked at.
	narrow func(c *call) ([]netItem, bool)

	create func(c *call, in fields) (netItem, error) // nil: cannot be created
	update func(c *call, x netItem, in fields) error
	remove func(c *call, x netItem) error
	// bulk checks the bodies of a bulk create together; may be nil.
	bulk func(in []fields) error
}

// notFoundAs makes a kind's refusal of unknown ids.
func notFoundAs(kind, format string) func(string) *apiError {
	return func(id string) *apiError {
		return errorf(http.StatusNotFound, kind, format, id)
	}
}

func (s *Neutron) netKinds() []*netKind {
	kinds := []*netKind{
		s.networkKind(), s.subnetKind(), s.portKind(), s.routerKind(), s.floatingIPKind(), s.securityGroupKind(), s.securityRuleKind(),
	}
	if s.opts.Trunks {
		kinds = append(kinds, s.trunkKind())
	}
	return kinds
}

// service is Neutron's part of the API.
func (s *Neutron) service() *service {
	return &service{name: "network", prefix: "/network", errorBody: networkError, routes: s.routes, noRoute: errorf(http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")}
}

func (s *Neutron) routes(r *router) {
	r.open("GET /{$}", networkVersions)
	r.handle("GET /v2.0/{$}", networkResources)
	r.handle("GET /v2.0/extensions", s.listExtensions)
	r.handle("GET /v2.0/extensions/{alias}", s.showExtension)
	s.quotaRoutes(r)
	for _, path := range []string{"subnetpools", "agents", "availability_zones", "address-groups", "address-scopes"} {
		key := strings.ReplaceAll(path, "-", "_")
		r.handle("GET /v2.0/"+path, func(*call) (*reply, error) { return ok(object{key: []any{}}) })
	}
	for _, k := range s.netKinds() {
		base := "/v2.0/" + k.path
		r.handle("GET "+base, k.list)
		r.handle("POST "+base, k.post)
		r.handle("GET "+base+"/{id}", k.show)
		r.handle("PUT "+base+"/{id}", k.put)
		r.handle("DELETE "+base+"/{id}", k.delete)
		r.handle("POST "+base+"/{id}", methodNotAllowed)
		r.handle("PATCH "+base+"/{id}", methodNotAllowed)
		// Neutron takes changes of a collection for changes of an object "None".
		r.handle("PUT "+base, func(*call) (*reply, error) { return nil, k.missing("None") })
		r.handle("DELETE "+base, func(*call) (*reply, error) { return nil, k.missing("None") })
		k.tagRoutes(r, base)
	}
	s.routerActions(r)
	if s.opts.Trunks {
		s.trunkRoutes(r)
	}
}

func methodNotAllowed(*call) (*reply, error) {
	return nil, errorf(http.StatusMethodNotAllowed, "", "The server could not comply with the request since it is either malformed or otherwise incorrect.")
}

// find returns the object that a path names, if the caller may see it.
func (k *netKind) find(c *call, id string) (netItem, error) {
	x, is := k.get(id)
	if !is || !k.sees(c, x) {
		return nil, k.missing(id)
	}
	return x, nil
}

func (k *netKind) sees(c *call, x netItem) bool {
	return c.sees(x.base().project) || k.visible != nil && k.visible(x)
}

// own is find for changes: what the caller sees of others cannot be changed.
func (k *netKind) own(c *call, id string) (netItem, error) {
	x, err := k.find(c, id)
	if err != nil {
		return nil, err
	}
	if !c.sees(x.base().project) {
		verb := map[string]string{http.MethodDelete: "delete", http.MethodPut: "update"}[c.r.Method]
		return nil, errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:%s_%s is disallowed by policy", verb, k.one)
	}
	return x, k.precondition(c, x)
}

// precondition checks If-Match: revision_number=N.
func (k *netKind) precondition(c *call, x netItem) error {
	h, is := strings.CutPrefix(c.r.Header.Get("If-Match"), "revision_number=")
	if !is {
		return nil
	}
	n, err := strconv.Atoi(h)
	if err != nil {
		return badRequest("Bad format for If-Match header: revision_number=%s", h)
	}
	if have := x.base().revision; n != have {
		return errorf(http.StatusPreconditionFailed, "RevisionNumberConstraintFailed", "Constrained to %d, but current revision is %d", n, have)
	}
	return nil
}

func (k *netKind) show(c *call) (*reply, error) {
	x, err := k.find(c, c.param("id"))
	if err != nil {
		return nil, err
	}
	return ok(object{k.one: selectFields(k.view(c, x), c.query["fields"])})
}

func (k *netKind) post(c *call) (*reply, error) {
	one, many, err := k.body(c)
	if err != nil {
		return nil, err
	}
	if many != nil {
		return k.postMany(c, many)
	}
	if err := k.check(c, one, true); err != nil {
		return nil, err
	}
	x, err := k.create(c, one)
	if err != nil {
		return nil, err
	}
	view := k.view(c, x)
	if k.one == "network" {
		view["is_default"] = false // which later answers say of external networks only
	}
	return answer(http.StatusCreated, object{k.one: view})
}

// postMany creates several objects or none.
func (k *netKind) postMany(c *call, many []fields) (*reply, error) {
	for _, in := range many {
		if err := k.check(c, in, true); err != nil {
			return nil, err
		}
	}
	if k.bulk != nil {
		if err := k.bulk(many); err != nil {
			return nil, err
		}
	}
	var done []netItem
	views := []object{}
	for _, in := range many {
		x, err := k.create(c, in)
		if err != nil {
			for _, x := range done {
				if undo := k.remove(c, x); undo != nil {
					return nil, undo
				}
			}
			return nil, err
		}
		done = append(done, x)
		views = append(views, k.view(c, x))
	}
	return answer(http.StatusCreated, object{k.many: views})
}

func (k *netKind) put(c *call) (*reply, error) {
	in, _, err := k.body(c)
	if err != nil {
		return nil, err
	}
	x, err := k.own(c, c.param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.check(c, in, false); err != nil {
		return nil, err
	}
	if err := k.update(c, x, in); err != nil {
		return nil, err
	}
	x.base().changed()
	return ok(object{k.one: k.view(c, x)})
}

func (k *netKind) delete(c *call) (*reply, error) {
	x, err := k.own(c, c.param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.remove(c, x); err != nil {
		return nil, err
	}
	return noContent()
}

// networkError is Neutron's error body.
func networkError(_ *call, e *apiError) (string, any) {
	kind := e.kind
	if kind == "" {
		kind = "HTTP" + strings.ReplaceAll(http.StatusText(e.status), " ", "")
	}
	return "", object{"NeutronError": object{"type": kind, "message": e.message, "detail": ""}}
}
