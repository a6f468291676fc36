package wire

import (
	"maps"
	"slices"
	"strconv"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/aws/query"
)

// maxTagged is how many objects one request tags at most.
const maxTagged = 1000

// writeTags writes tags, sorted by key. A value may be empty.
func (c *Call) writeTags(tags map[string]string) {
	query.List(c.Out, "tagSet", slices.Sorted(maps.Keys(tags)), func(key string) {
		c.Out.Text("key", key)
		c.Out.Open("value")
		c.Out.Escaped(tags[key])
		c.Out.Close()
	})
}

// withTags adds to filters those of tags.
func withTags[T any](tags func(T) map[string]string, fields query.Fields[T]) query.Fields[T] {
	fields["tag:"] = func(v T, key string) []string {
		if value, ok := tags(v)[key]; ok {
			return []string{value}
		}
		return nil
	}
	fields["tag-key"] = func(v T, _ string) []string { return slices.Collect(maps.Keys(tags(v))) }
	return fields
}

// is is a filter by one value.
func is[T any](value func(T) string) func(T, string) []string {
	return func(v T, _ string) []string {
		if value := value(v); value != "" {
			return []string{value}
		}
		return nil
	}
}

// truth is a filter by a truth value.
func truth[T any](value func(T) bool) func(T, string) []string {
	return func(v T, _ string) []string { return []string{strconv.FormatBool(value(v))} }
}

// of is a filter by several values.
func of[T any](values func(T) []string) func(T, string) []string {
	return func(v T, _ string) []string { return values(v) }
}

func (c *Call) tagged() ([]string, []*query.Form, error) {
	ids, tags := c.In.Strings("ResourceId"), c.In.Structs("Tag")
	switch {
	case len(ids) == 0:
		return nil, nil, query.Errorf("MissingParameter", "The request must contain the parameter resourceIdSet")
	case len(ids) > maxTagged: // unverified code
		return nil, nil, query.Errorf("InvalidParameterValue", "The maximum number of resources on a single call is %d", maxTagged)
	}
	return ids, tags, nil
}

func (c *Call) createTags() error {
	ids, tags, err := c.tagged()
	if err != nil {
		return err
	}
	if len(tags) == 0 {
		return query.Errorf("MissingParameter", "The request must contain the parameter tagSet") // unverified message
	}
	return c.done(c.Region.CreateTags(ids, tagMap(tags)))
}

func tagMap(tags []*query.Form) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		out[t.Get("Key")] = t.Get("Value")
	}
	return out
}

// deleteTags without tags deletes all that the caller may.
func (c *Call) deleteTags() error {
	ids, tags, err := c.tagged()
	if err != nil {
		return err
	}
	if len(tags) == 0 { // documented: all but those of AWS; nothing here needs it
		return query.Errorf("MissingParameter", "The request must contain the parameter tagSet")
	}
	out := map[string]*string{}
	for _, t := range tags {
		out[t.Get("Key")] = nil
		if value := t.At("Value"); value != nil {
			text := t.Get("Value")
			out[t.Get("Key")] = &text
		}
	}
	return c.done(c.Region.DeleteTags(ids, out))
}

// newTags are those that a request gives to what it creates.
func (c *Call) newTags(kind string) map[string]string {
	out := map[string]string{}
	for _, spec := range c.In.Structs("TagSpecification") {
		if spec.Get("ResourceType") == kind {
			maps.Copy(out, tagMap(spec.Structs("Tag")))
		}
	}
	return out
}
