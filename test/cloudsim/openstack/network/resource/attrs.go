package network

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// attr is one attribute of a kind of object and what Neutron takes for it.
type attr struct {
	name  string
	typ   attrType
	modes string // "c" may be created, "u" updated, "!" required at creation, "a" admin only at creation
}

type attrType int

const (
	anyValue attrType = iota
	text
	boolean
	uuidValue
	uuidOrNull
)

// body returns the object (or with many the objects) in the request's body.
func (k *netKind) body(c *core.Call) (one dialect.Fields, many []dialect.Fields, err error) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.Body, &doc) != nil {
		return nil, nil, dialect.BadRequest("Body contains invalid data")
	}
	if raw, is := doc[k.one]; is && json.Unmarshal(raw, &one) == nil && one != nil {
		return one, nil, nil
	}
	if raw, is := doc[k.many]; is && c.Request.Method == http.MethodPost && json.Unmarshal(raw, &many) == nil && len(many) > 0 {
		return nil, many, nil
	}
	return nil, nil, dialect.BadRequest("Unable to find '%s' in request body", k.one)
}

// check validates fields against the kind's attributes as Neutron does.
func (k *netKind) check(c *core.Call, in dialect.Fields, create bool) error {
	known := map[string]attr{}
	for _, a := range k.attrs {
		known[a.name] = a
	}
	var unknown []string
	for name := range in {
		if _, is := known[name]; !is {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return dialect.BadRequest("Unrecognized attribute(s) '%s'", strings.Join(unknown, ", "))
	}
	for _, a := range k.attrs {
		raw, given := in[a.name]
		switch {
		case create && !given && strings.Contains(a.modes, "!"):
			return dialect.BadRequest("Failed to parse request. Required attribute '%s' not specified", a.name)
		case !given:
			continue
		case create && !strings.Contains(a.modes, "c"):
			return dialect.BadRequest("Attribute '%s' not allowed in POST", a.name)
		case !create && !strings.Contains(a.modes, "u"):
			return dialect.BadRequest("Cannot update read-only attribute %s", a.name)
		case strings.Contains(a.modes, "a") && create && !c.Admin():
			return core.Errorf(http.StatusForbidden, "PolicyNotAuthorized", "(rule:create_%s and rule:create_%s:%s) is disallowed by policy", k.one, k.one, a.name)
		}
		if err := a.check(raw); err != nil {
			return err
		}
	}
	return k.checkProject(c, in)
}

func (k *netKind) checkProject(c *core.Call, in dialect.Fields) error {
	for _, name := range []string{"project_id", "tenant_id"} {
		if in.Has(name) && in.Text(name) != c.Project() && !c.Admin() {
			return dialect.BadRequest("Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin or advsvc privileges")
		}
	}
	return nil
}

func (a attr) check(raw json.RawMessage) error {
	switch a.typ {
	case text:
		var v string
		if json.Unmarshal(raw, &v) != nil || string(raw) == "null" {
			return dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a valid string.", a.name, dialect.Plain(raw))
		}
		if len(v) > 255 {
			return dialect.BadRequest("Invalid input for %s. Reason: '%s' exceeds maximum length of 255.", a.name, v)
		}
	case boolean:
		if _, is := dialect.ParseBool(dialect.Plain(raw)); !is {
			return core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: '%s' cannot be converted to boolean.", dialect.Plain(raw))
		}
	case uuidValue, uuidOrNull:
		if a.typ == uuidOrNull && string(raw) == "null" {
			return nil
		}
		if v := dialect.Plain(raw); !dialect.IsUUID(v) {
			return dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a valid UUID.", a.name, v)
		}
	}
	return nil
}

// describe sets name and description from a body.
func (e *entity) describe(in dialect.Fields) {
	if in.Has("name") {
		e.name = in.Text("name")
	}
	if in.Has("description") {
		e.description = in.Text("description")
	}
}

// parseCIDR checks what Neutron takes as a CIDR for an attribute.
func parseCIDR(attribute, v string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(v)
	if err != nil {
		return p, dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a valid CIDR.", attribute, v)
	}
	if p.Masked() != p {
		return p, dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a recognized CIDR, '%s' is recommended.", attribute, v, p.Masked())
	}
	return p, nil
}
