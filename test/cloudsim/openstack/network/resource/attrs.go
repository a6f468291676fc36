package resource

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// Attr is one attribute of a kind of object and what Neutron takes for it: its name, its type, and its modes, of
// which "c" is may be created, "u" updated, "!" required at creation, "a" admin only at creation.
type Attr [3]string

// The types of attributes.
const (
	Any        = "any"
	Text       = "text"
	Boolean    = "boolean"
	UUID       = "UUID"
	UUIDOrNull = "UUID or null"
)

// body returns the object (or with many the objects) in the request's body.
func (k *Kind) body(c *core.Call) (one dialect.Fields, many []dialect.Fields, err error) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.Body, &doc) != nil {
		return nil, nil, dialect.BadRequest("Body contains invalid data")
	}
	if raw, is := doc[k.One]; is && json.Unmarshal(raw, &one) == nil && one != nil {
		return one, nil, nil
	}
	if raw, is := doc[k.Many]; is && c.Request.Method == http.MethodPost && json.Unmarshal(raw, &many) == nil && len(many) > 0 {
		return nil, many, nil
	}
	return nil, nil, dialect.BadRequest("Unable to find '%s' in request body", k.One)
}

// check validates fields against the kind's attributes as Neutron does.
func (k *Kind) check(c *core.Call, in dialect.Fields, create bool) error {
	known := map[string]Attr{}
	for _, a := range k.Attrs {
		known[a[0]] = a
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
	for _, a := range k.Attrs {
		name, modes := a[0], a[2]
		raw, given := in[name]
		switch {
		case create && !given && strings.Contains(modes, "!"):
			return dialect.BadRequest("Failed to parse request. Required attribute '%s' not specified", name)
		case !given:
			continue
		case create && !strings.Contains(modes, "c"):
			return dialect.BadRequest("Attribute '%s' not allowed in POST", name)
		case !create && !strings.Contains(modes, "u"):
			return dialect.BadRequest("Cannot update read-only attribute %s", name)
		case strings.Contains(modes, "a") && create && !c.Admin():
			return core.Errorf(http.StatusForbidden, "PolicyNotAuthorized", "(rule:create_%s and rule:create_%s:%s) is disallowed by policy", k.One, k.One, name)
		}
		if err := a.check(raw); err != nil {
			return err
		}
	}
	return k.checkProject(c, in)
}

func (k *Kind) checkProject(c *core.Call, in dialect.Fields) error {
	for _, name := range []string{"project_id", "tenant_id"} {
		if in.Has(name) && in.Text(name) != c.Project() && !c.Admin() {
			return dialect.BadRequest("Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin or advsvc privileges")
		}
	}
	return nil
}

func (a Attr) check(raw json.RawMessage) error {
	name, typ := a[0], a[1]
	switch typ {
	case Text:
		var v string
		if json.Unmarshal(raw, &v) != nil || string(raw) == "null" {
			return dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a valid string.", name, dialect.Plain(raw))
		}
		if len(v) > 255 {
			return dialect.BadRequest("Invalid input for %s. Reason: '%s' exceeds maximum length of 255.", name, v)
		}
	case Boolean:
		if _, is := dialect.ParseBool(dialect.Plain(raw)); !is {
			return core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: '%s' cannot be converted to boolean.", dialect.Plain(raw))
		}
	case UUID, UUIDOrNull:
		if typ == UUIDOrNull && string(raw) == "null" {
			return nil
		}
		if v := dialect.Plain(raw); !dialect.IsUUID(v) {
			return dialect.BadRequest("Invalid input for %s. Reason: '%s' is not a valid UUID.", name, v)
		}
	}
	return nil
}
