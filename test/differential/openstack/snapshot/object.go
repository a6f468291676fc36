package snapshot

import "maps"

// Text is a string of an object, "" where there is none.
func Text(o Object, key string) string {
	v, _ := o[key].(string)
	return v
}

func objects(o Object, key string) []Object {
	list, _ := o[key].([]any)
	var out []Object
	for _, v := range list {
		if x, is := v.(map[string]any); is {
			out = append(out, x)
		}
	}
	if typed, is := o[key].([]Object); is {
		return typed
	}
	return out
}

func texts(o Object, key string) []string {
	list, _ := o[key].([]any)
	var out []string
	for _, v := range list {
		if x, is := v.(string); is {
			out = append(out, x)
		}
	}
	if typed, is := o[key].([]string); is {
		return typed
	}
	return out
}

// without is a copy without some keys.
func without(o Object, keys ...string) Object {
	out := maps.Clone(o)
	for _, k := range keys {
		delete(out, k)
	}
	return out
}
