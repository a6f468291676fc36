package resource

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/dialect"
)

// tagRoutes registers a kind's tags.
func (k *Kind) tagRoutes(r *core.Router, base string) {
	if k.One == "security_group_rule" {
		return // rules have none
	}
	r.Handle("GET "+base+"/{id}/tags", k.listTags)
	r.Handle("PUT "+base+"/{id}/tags", k.replaceTags)
	r.Handle("DELETE "+base+"/{id}/tags", k.clearTags)
	r.Handle("GET "+base+"/{id}/tags/{tag}", k.showTag)
	r.Handle("PUT "+base+"/{id}/tags/{tag}", k.addTag)
	r.Handle("DELETE "+base+"/{id}/tags/{tag}", k.removeTag)
}

func (k *Kind) tagged(c *core.Call) (*Entity, error) {
	x, is := k.Get(c.Param("id"))
	if !is || !c.Sees(x.Base().Project) {
		return nil, core.Errorf(http.StatusNotFound, "TagResourceNotFound", "Resource %s %s could not be found.", k.Path, c.Param("id"))
	}
	return x.Base(), nil
}

func (k *Kind) listTags(c *core.Call) (*core.Reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	return core.OK(core.Object{"tags": append([]string{}, e.tags...)})
}

func (k *Kind) replaceTags(c *core.Call) (*core.Reply, error) {
	invalid := func(format string, args ...any) (*core.Reply, error) {
		return nil, core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: "+format, args...)
	}
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.Body, &doc) != nil || doc["tags"] == nil {
		return invalid("Invalid tags body.")
	}
	var tags []string
	if json.Unmarshal(doc["tags"], &tags) != nil {
		return invalid("'%s' is not a list.", dialect.Plain(doc["tags"]))
	}
	for i, t := range tags {
		if slices.Contains(tags[:i], t) {
			return invalid("Duplicate items in the list: '%s'.", t)
		}
	}
	e.tags = tags
	e.Changed()
	return core.OK(core.Object{"tags": tags})
}

func (k *Kind) clearTags(c *core.Call) (*core.Reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	e.tags = nil
	e.Changed()
	return core.NoContent()
}

func (k *Kind) showTag(c *core.Call) (*core.Reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(e.tags, c.Param("tag")) {
		return nil, tagNotFound(c)
	}
	return core.NoContent()
}

func (k *Kind) addTag(c *core.Call) (*core.Reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	if t := c.Param("tag"); !slices.Contains(e.tags, t) {
		e.tags = append(slices.Clone(e.tags), t)
	}
	e.Changed()
	return core.Answer(http.StatusCreated, json.RawMessage("null"))
}

func (k *Kind) removeTag(c *core.Call) (*core.Reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	i := slices.Index(e.tags, c.Param("tag"))
	if i < 0 {
		return nil, tagNotFound(c)
	}
	e.tags = slices.Delete(slices.Clone(e.tags), i, i+1)
	e.Changed()
	return core.NoContent()
}

func tagNotFound(c *core.Call) *core.Error {
	return core.Errorf(http.StatusNotFound, "TagNotFound", "Tag %s could not be found.", c.Param("tag"))
}
