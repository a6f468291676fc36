package network

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// netKind is one kind of Neutron's objects: how it is named, validated, kept and shown.
type netKind struct {
	one, many string // keys in bodies
	path      string // in addresses
	attrs     []attr
	missing   func(id string) *core.Error

	all  func() []netItem // in order of id
	get  func(id string) (netItem, bool)
	view func(c *core.Call, x netItem) core.Object
	// visible says who may see an object besides its project and the admin; nil: nobody.
	visible func(x netItem) bool
	// narrow may answer a list's filters from an index; nil or false: all items are looked at.
	narrow func(c *core.Call) ([]netItem, bool)

	create func(c *core.Call, in dialect.Fields) (netItem, error) // nil: cannot be created
	update func(c *core.Call, x netItem, in dialect.Fields) error
	remove func(c *core.Call, x netItem) error
	// bulk checks the bodies of a bulk create together; may be nil.
	bulk func(in []dialect.Fields) error
}

// notFoundAs makes a kind's refusal of unknown ids.
func notFoundAs(kind, format string) func(string) *core.Error {
	return func(id string) *core.Error {
		return core.Errorf(http.StatusNotFound, kind, format, id)
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

// Service is Neutron's part of the API.
func (s *Neutron) Service() *core.Service {
	return &core.Service{Name: "network", Prefix: "/network", ErrorBody: networkError, Routes: s.routes, NoRoute: core.Errorf(http.StatusNotFound, "HTTPNotFound", "The resource could not be found.")}
}

func (s *Neutron) routes(r *core.Router) {
	r.Open("GET /{$}", networkVersions)
	r.Handle("GET /v2.0/{$}", networkResources)
	r.Handle("GET /v2.0/extensions", s.listExtensions)
	r.Handle("GET /v2.0/extensions/{alias}", s.showExtension)
	s.quotaRoutes(r)
	for _, path := range []string{"subnetpools", "agents", "availability_zones", "address-groups", "address-scopes"} {
		key := strings.ReplaceAll(path, "-", "_")
		r.Handle("GET /v2.0/"+path, func(*core.Call) (*core.Reply, error) { return core.OK(core.Object{key: []any{}}) })
	}
	for _, k := range s.netKinds() {
		base := "/v2.0/" + k.path
		r.Handle("GET "+base, k.list)
		r.Handle("POST "+base, k.post)
		r.Handle("GET "+base+"/{id}", k.show)
		r.Handle("PUT "+base+"/{id}", k.put)
		r.Handle("DELETE "+base+"/{id}", k.delete)
		r.Handle("POST "+base+"/{id}", methodNotAllowed)
		r.Handle("PATCH "+base+"/{id}", methodNotAllowed)
		// Neutron takes changes of a collection for changes of an object "None".
		r.Handle("PUT "+base, func(*core.Call) (*core.Reply, error) { return nil, k.missing("None") })
		r.Handle("DELETE "+base, func(*core.Call) (*core.Reply, error) { return nil, k.missing("None") })
		k.tagRoutes(r, base)
	}
	s.routerActions(r)
	if s.opts.Trunks {
		s.trunkRoutes(r)
	}
}

func methodNotAllowed(*core.Call) (*core.Reply, error) {
	return nil, core.Errorf(http.StatusMethodNotAllowed, "", "The server could not comply with the request since it is either malformed or otherwise incorrect.")
}

// find returns the object that a path names, if the caller may see it.
func (k *netKind) find(c *core.Call, id string) (netItem, error) {
	x, is := k.get(id)
	if !is || !k.sees(c, x) {
		return nil, k.missing(id)
	}
	return x, nil
}

func (k *netKind) sees(c *core.Call, x netItem) bool {
	return c.Sees(x.base().project) || k.visible != nil && k.visible(x)
}

// own is find for changes: what the caller sees of others cannot be changed.
func (k *netKind) own(c *core.Call, id string) (netItem, error) {
	x, err := k.find(c, id)
	if err != nil {
		return nil, err
	}
	if !c.Sees(x.base().project) {
		verb := map[string]string{http.MethodDelete: "delete", http.MethodPut: "update"}[c.Request.Method]
		return nil, core.Errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:%s_%s is disallowed by policy", verb, k.one)
	}
	return x, k.precondition(c, x)
}

// precondition checks If-Match: revision_number=N.
func (k *netKind) precondition(c *core.Call, x netItem) error {
	h, is := strings.CutPrefix(c.Request.Header.Get("If-Match"), "revision_number=")
	if !is {
		return nil
	}
	n, err := strconv.Atoi(h)
	if err != nil {
		return dialect.BadRequest("Bad format for If-Match header: revision_number=%s", h)
	}
	if have := x.base().revision; n != have {
		return core.Errorf(http.StatusPreconditionFailed, "RevisionNumberConstraintFailed", "Constrained to %d, but current revision is %d", n, have)
	}
	return nil
}

func (k *netKind) show(c *core.Call) (*core.Reply, error) {
	x, err := k.find(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{k.one: dialect.SelectFields(k.view(c, x), c.Query["fields"])})
}

func (k *netKind) post(c *core.Call) (*core.Reply, error) {
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
	return core.Answer(http.StatusCreated, core.Object{k.one: view})
}

// postMany creates several objects or none.
func (k *netKind) postMany(c *core.Call, many []dialect.Fields) (*core.Reply, error) {
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
	views := []core.Object{}
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
	return core.Answer(http.StatusCreated, core.Object{k.many: views})
}

func (k *netKind) put(c *core.Call) (*core.Reply, error) {
	in, _, err := k.body(c)
	if err != nil {
		return nil, err
	}
	x, err := k.own(c, c.Param("id"))
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
	return core.OK(core.Object{k.one: k.view(c, x)})
}

func (k *netKind) delete(c *core.Call) (*core.Reply, error) {
	x, err := k.own(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.remove(c, x); err != nil {
		return nil, err
	}
	return core.NoContent()
}

// networkError is Neutron's error body.
func networkError(_ *core.Call, e *core.Error) (string, any) {
	kind := e.Kind
	if kind == "" {
		kind = "HTTP" + strings.ReplaceAll(http.StatusText(e.Status), " ", "")
	}
	return "", core.Object{"NeutronError": core.Object{"type": kind, "message": e.Message, "detail": ""}}
}
