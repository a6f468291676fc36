package resource

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// Kind is one kind of Neutron's objects: how it is named, validated, kept and shown.
type Kind struct {
	One, Many string // keys in bodies
	Path      string // in addresses
	Attrs     []Attr
	Missing   func(id string) *core.Error

	All  func() []Item // in order of id
	Get  func(id string) (Item, bool)
	View func(c *core.Call, x Item) core.Object
	// Visible says who may see an object besides its project and the admin; nil: nobody.
	Visible func(x Item) bool
	// Narrow may answer a list's filters from an index; nil or false: all items are looked at.
	Narrow func(c *core.Call) ([]Item, bool)

	Create func(c *core.Call, in dialect.Fields) (Item, error) // nil: cannot be created
	Update func(c *core.Call, x Item, in dialect.Fields) error
	Remove func(c *core.Call, x Item) error
	// Bulk checks the bodies of a bulk create together; may be nil.
	Bulk func(in []dialect.Fields) error
}

// NotFound makes a kind's refusal of unknown ids.
func NotFound(kind, format string) func(string) *core.Error {
	return func(id string) *core.Error {
		return core.Errorf(http.StatusNotFound, kind, format, id)
	}
}

func methodNotAllowed(*core.Call) (*core.Reply, error) {
	return nil, core.Errorf(http.StatusMethodNotAllowed, "", "The server could not comply with the request since it is either malformed or otherwise incorrect.")
}

// Find returns the object that a path names, if the caller may see it.
func (k *Kind) Find(c *core.Call, id string) (Item, error) {
	x, is := k.Get(id)
	if !is || !k.sees(c, x) {
		return nil, k.Missing(id)
	}
	return x, nil
}

func (k *Kind) sees(c *core.Call, x Item) bool {
	return c.Sees(x.Base().Project) || k.Visible != nil && k.Visible(x)
}

// Own is find for changes: what the caller sees of others cannot be changed.
func (k *Kind) Own(c *core.Call, id string) (Item, error) {
	x, err := k.Find(c, id)
	if err != nil {
		return nil, err
	}
	if !c.Sees(x.Base().Project) {
		verb := map[string]string{http.MethodDelete: "delete", http.MethodPut: "update"}[c.Request.Method]
		return nil, core.Errorf(http.StatusForbidden, "PolicyNotAuthorized", "rule:%s_%s is disallowed by policy", verb, k.One)
	}
	return x, k.precondition(c, x)
}

// precondition checks If-Match: revision_number=N.
func (k *Kind) precondition(c *core.Call, x Item) error {
	h, is := strings.CutPrefix(c.Request.Header.Get("If-Match"), "revision_number=")
	if !is {
		return nil
	}
	n, err := strconv.Atoi(h)
	if err != nil {
		return dialect.BadRequest("Bad format for If-Match header: revision_number=%s", h)
	}
	if have := x.Base().Revision; n != have {
		return core.Errorf(http.StatusPreconditionFailed, "RevisionNumberConstraintFailed", "Constrained to %d, but current revision is %d", n, have)
	}
	return nil
}

func (k *Kind) show(c *core.Call) (*core.Reply, error) {
	x, err := k.Find(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{k.One: dialect.SelectFields(k.View(c, x), c.Query["fields"])})
}

func (k *Kind) post(c *core.Call) (*core.Reply, error) {
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
	x, err := k.Create(c, one)
	if err != nil {
		return nil, err
	}
	view := k.View(c, x)
	if k.One == "network" {
		view["is_default"] = false // which later answers say of external networks only
	}
	return core.Answer(http.StatusCreated, core.Object{k.One: view})
}

// postMany creates several objects or none.
func (k *Kind) postMany(c *core.Call, many []dialect.Fields) (*core.Reply, error) {
	for _, in := range many {
		if err := k.check(c, in, true); err != nil {
			return nil, err
		}
	}
	if k.Bulk != nil {
		if err := k.Bulk(many); err != nil {
			return nil, err
		}
	}
	var done []Item
	views := []core.Object{}
	for _, in := range many {
		x, err := k.Create(c, in)
		if err != nil {
			for _, x := range done {
				if undo := k.Remove(c, x); undo != nil {
					return nil, undo
				}
			}
			return nil, err
		}
		done = append(done, x)
		views = append(views, k.View(c, x))
	}
	return core.Answer(http.StatusCreated, core.Object{k.Many: views})
}

func (k *Kind) put(c *core.Call) (*core.Reply, error) {
	in, _, err := k.body(c)
	if err != nil {
		return nil, err
	}
	x, err := k.Own(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.check(c, in, false); err != nil {
		return nil, err
	}
	if err := k.Update(c, x, in); err != nil {
		return nil, err
	}
	x.Base().Changed()
	return core.OK(core.Object{k.One: k.View(c, x)})
}

func (k *Kind) delete(c *core.Call) (*core.Reply, error) {
	x, err := k.Own(c, c.Param("id"))
	if err != nil {
		return nil, err
	}
	if err := k.Remove(c, x); err != nil {
		return nil, err
	}
	return core.NoContent()
}

// Routes registers the kind's handlers.
func (k *Kind) Routes(r *core.Router) {
	base := "/v2.0/" + k.Path
	r.Handle("GET "+base, k.list)
	r.Handle("POST "+base, k.post)
	r.Handle("GET "+base+"/{id}", k.show)
	r.Handle("PUT "+base+"/{id}", k.put)
	r.Handle("DELETE "+base+"/{id}", k.delete)
	r.Handle("POST "+base+"/{id}", methodNotAllowed)
	r.Handle("PATCH "+base+"/{id}", methodNotAllowed)
	// Neutron takes changes of a collection for changes of an object "None".
	r.Handle("PUT "+base, func(*core.Call) (*core.Reply, error) { return nil, k.Missing("None") })
	r.Handle("DELETE "+base, func(*core.Call) (*core.Reply, error) { return nil, k.Missing("None") })
	k.tagRoutes(r, base)
}
