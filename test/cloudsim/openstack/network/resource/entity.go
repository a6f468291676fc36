package resource

import (
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// Entity is what all of Neutron's objects have.
type Entity struct {
	ID, Project, Name, Description string

	Seq              int
	tags             []string
	Created, Updated time.Time
	Revision         int
}

// Item is one of Neutron's objects.
type Item interface{ Base() *Entity }

// Base implements Item.
func (e *Entity) Base() *Entity { return e }

// Changed counts a revision.
func (e *Entity) Changed() {
	e.Revision++
	e.Updated = time.Now().UTC()
}

// View holds the attributes that all objects have.
func (e *Entity) View(o core.Object) core.Object {
	tags := e.tags
	if tags == nil {
		tags = []string{}
	}
	o["id"], o["name"], o["description"] = e.ID, e.Name, e.Description
	o["tenant_id"], o["project_id"], o["tags"] = e.Project, e.Project, tags
	o["created_at"], o["updated_at"] = netTime(e.Created), netTime(e.Updated)
	o["revision_number"] = e.Revision
	return o
}

// Describe sets name and description from a body.
func (e *Entity) Describe(in dialect.Fields) {
	if in.Has("name") {
		e.Name = in.Text("name")
	}
	if in.Has("description") {
		e.Description = in.Text("description")
	}
}

func netTime(t time.Time) string { return t.Format("2006-01-02T15:04:05Z") }

// ByID returns the items in order of id, as Neutron lists them.
func ByID[T Item](m map[string]T) []Item {
	out := make([]Item, 0, len(m))
	for _, x := range m {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Item) int { return strings.Compare(a.Base().ID, b.Base().ID) })
	return out
}

// BySeq returns the items in order of creation.
func BySeq[T Item](m map[string]T) []T {
	out := make([]T, 0, len(m))
	for _, x := range m {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b T) int { return a.Base().Seq - b.Base().Seq })
	return out
}
