package script

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
)

// key is an annotation's whole name.
func key(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return prefix + name
}

// patch is a step that patches the Service.
func patch(text string) Step { return Step{Patch: text} }

// annotate is a step that sets an annotation.
func annotate(name, value string) Step { return annotateAll(map[string]string{name: value}) }

// annotateAll is a step that sets annotations.
func annotateAll(annotations map[string]string) Step {
	return patch(fmt.Sprintf(`{"metadata":{"annotations":%s}}`, snapshot.Compact(prefixed(annotations))))
}

// remove is a step that takes annotations away.
func remove(names ...string) Step {
	gone := map[string]any{}
	for _, n := range names {
		gone[key(n)] = nil
	}
	data, err := json.Marshal(gone)
	if err != nil {
		return Step{Patch: err.Error()}
	}
	return patch(fmt.Sprintf(`{"metadata":{"annotations":%s}}`, data))
}
