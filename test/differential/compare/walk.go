package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Walk walks two values as they are decoded from JSON side by side, and reports where they differ: the keys that lead there, and both
// values as JSON, "" for none. It goes into maps alone.
func Walk(a, b any, report func(path []string, a, b string)) { walk(a, b, nil, report) }

func walk(a, b any, path []string, report func(path []string, a, b string)) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		if t, u := shown(a), shown(b); t != u {
			report(path, t, u)
		}
		return
	}
	keys := slices.Collect(maps.Keys(x))
	for k := range y {
		if _, is := x[k]; !is {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		walk(x[k], y[k], append(slices.Clip(path), k), report)
	}
}

func shown(v any) string {
	if v == nil {
		return ""
	}
	return Compact(v)
}

// Compact is a value as JSON in one line.
func Compact(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// OrNone is a value as it is told.
func OrNone(v string) string {
	if v == "" {
		return "nothing"
	}
	return v
}
