package openstack

import (
	"encoding/json"
	"net/http"
	"slices"
)

// tagRoutes registers a kind's tags.
func (k *netKind) tagRoutes(r *router, base string) {
	if k.one == "security_group_rule" {
		return // rules have none
	}
	r.handle("GET "+base+"/{id}/tags", k.listTags)
	r.handle("PUT "+base+"/{id}/tags", k.replaceTags)
	r.handle("DELETE "+base+"/{id}/tags", k.clearTags)
	r.handle("GET "+base+"/{id}/tags/{tag}", k.showTag)
	r.handle("PUT "+base+"/{id}/tags/{tag}", k.addTag)
	r.handle("DELETE "+base+"/{id}/tags/{tag}", k.removeTag)
}

func (k *netKind) tagged(c *call) (*entity, error) {
	x, is := k.get(c.param("id"))
	if !is || !c.sees(x.base().project) {
		return nil, errorf(http.StatusNotFound, "TagResourceNotFound", "Resource %s %s could not be found.", k.path, c.param("id"))
	}
	return x.base(), nil
}

func (k *netKind) listTags(c *call) (*reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	return ok(object{"tags": append([]string{}, e.tags...)})
}

func (k *netKind) replaceTags(c *call) (*reply, error) {
	invalid := func(format string, args ...any) (*reply, error) {
		return nil, errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: "+format, args...)
	}
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(c.body, &doc) != nil || doc["tags"] == nil {
		return invalid("Invalid tags body.")
	}
	var tags []string
	if json.Unmarshal(doc["tags"], &tags) != nil {
		return invalid("'%s' is not a list.", plain(doc["tags"]))
	}
	for i, t := range tags {
		if slices.Contains(tags[:i], t) {
			return invalid("Duplicate items in the list: '%s'.", t)
		}
	}
	e.tags = tags
	e.changed()
	return ok(object{"tags": tags})
}

func (k *netKind) clearTags(c *call) (*reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	e.tags = nil
	e.changed()
	return noContent()
}

func (k *netKind) showTag(c *call) (*reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(e.tags, c.param("tag")) {
		return nil, tagNotFound(c)
	}
	return noContent()
}

func (k *netKind) addTag(c *call) (*reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	if t := c.param("tag"); !slices.Contains(e.tags, t) {
		e.tags = append(slices.Clone(e.tags), t)
	}
	e.changed()
	return answer(http.StatusCreated, rawNull())
}

func (k *netKind) removeTag(c *call) (*reply, error) {
	e, err := k.tagged(c)
	if err != nil {
		return nil, err
	}
	i := slices.Index(e.tags, c.param("tag"))
	if i < 0 {
		return nil, tagNotFound(c)
	}
	e.tags = slices.Delete(slices.Clone(e.tags), i, i+1)
	e.changed()
	return noContent()
}

func tagNotFound(c *call) *apiError {
	return errorf(http.StatusNotFound, "TagNotFound", "Tag %s could not be found.", c.param("tag"))
}
