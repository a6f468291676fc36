package steps

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Prefix is what the names of a cloud's annotations begin with.
type Prefix string

// Key is an annotation's whole name.
func (p Prefix) Key(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return string(p) + name
}

// All are annotations with their whole names.
func (p Prefix) All(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range annotations {
		out[p.Key(k)] = v
	}
	return out
}

// Set is a patch that sets annotations.
func (p Prefix) Set(annotations map[string]string) string { return metadata(p.All(annotations)) }

// Remove is a patch that takes annotations away.
func (p Prefix) Remove(names ...string) string {
	gone := map[string]any{}
	for _, n := range names {
		gone[p.Key(n)] = nil
	}
	return metadata(gone)
}

func metadata(annotations any) string {
	data, err := json.Marshal(annotations)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(`{"metadata":{"annotations":%s}}`, data)
}

// AddPort is a patch that adds TCP 443.
const AddPort = `{"spec":{"ports":[{"name":"p0","port":80,"nodePort":{port+0}},{"name":"p1","port":443,"nodePort":{port+1}}]}}`
