package dialect

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// MatchValue reports whether a value is one of those wanted.
func MatchValue(have any, want []string) (bool, error) {
	switch have := have.(type) {
	case bool:
		for _, w := range want {
			b, is := ParseBool(w)
			if !is {
				return false, core.Errorf(http.StatusBadRequest, "InvalidInput", "Invalid input for operation: '%s' cannot be converted to boolean.", w)
			}
			if b == have {
				return true, nil
			}
		}
		return false, nil
	case []string:
		return slices.ContainsFunc(want, func(w string) bool { return slices.Contains(have, w) }), nil
	}
	return slices.Contains(want, Scalar(have)), nil
}

// MatchTags applies one of the filters by tags.
func MatchTags(v core.Object, key string, want []string) bool {
	have, is := v["tags"].([]string)
	if !is {
		return true
	}
	var tags []string
	for _, w := range want {
		tags = append(tags, strings.Split(w, ",")...)
	}
	count := 0
	for _, t := range tags {
		if slices.Contains(have, t) {
			count++
		}
	}
	switch key {
	case "tags":
		return count == len(tags)
	case "tags-any":
		return count > 0
	case "not-tags":
		return count < len(tags)
	default:
		return count == 0
	}
}

// Scalar is a value as a query writes it.
func Scalar(v any) string {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return ""
		}
		v = r.Elem().Interface()
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// SelectFields keeps the attributes that the query's fields name; none means all.
func SelectFields(v core.Object, names []string) core.Object {
	if len(names) == 0 {
		return v
	}
	out := core.Object{}
	for _, n := range names {
		if x, is := v[n]; is {
			out[n] = x
		}
	}
	return out
}
