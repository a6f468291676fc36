package steps

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// HealthNodePort is where the node ports for health checks begin, see ExpandPatch.
const HealthNodePort = 32000

// ExpandPatch puts values into a patch: {health} is a node port that only the Service with this number
// has, {port+N} its Nth node port.
func ExpandPatch(patch string, number int, symbols *symbol.Symbols) (string, error) {
	patch = strings.ReplaceAll(patch, "{health}", fmt.Sprint(HealthNodePort+number))
	for i := range 8 {
		patch = strings.ReplaceAll(patch, fmt.Sprintf("{port+%d}", i), fmt.Sprint(FirstNodePort+8*number+i))
	}
	return symbols.Expand(patch)
}

// mergePatch applies a JSON merge patch (RFC 7386).
func mergePatch(document, patch []byte) ([]byte, error) {
	var to, from any
	if err := json.Unmarshal(document, &to); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &from); err != nil {
		return nil, err
	}
	return json.Marshal(merged(to, from))
}

func merged(to, from any) any {
	changes, is := from.(map[string]any)
	if !is {
		return from
	}
	out, is := to.(map[string]any)
	if !is {
		out = map[string]any{}
	}
	for k, v := range changes {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = merged(out[k], v)
	}
	return out
}
