package kubelet

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"gopkg.in/yaml.v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
)

// maxDepth bounds the nesting of JSON; real ones have 4.
const maxDepth = 32

// parseTree reads YAML or JSON into maps that keep a key that is there twice (yaml.MapSlice),
// lists, texts, numbers, booleans and nil. more reports whether there is another document, which a
// kubelet does not read.
func parseTree(data []byte) (tree any, more bool, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		tree, err := parseJSON(data)
		return tree, false, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.MapSlice // the maps in it become MapSlices as well
	var mistakes *yaml.TypeError
	switch err := dec.Decode(&doc); {
	case errors.As(err, &mistakes):
		return nil, false, errors.New("it is a list or a text")
	case err != nil && !errors.Is(err, io.EOF):
		return nil, false, err
	}
	var other any
	return doc, !errors.Is(dec.Decode(&other), io.EOF), nil
}

// parseJSON reads one JSON value.
func parseJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	tree, err := jsonValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON object")
	}
	return tree, nil
}

func jsonValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if delim == '[' {
		list := []any{}
		for dec.More() {
			v, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	object := yaml.MapSlice{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		v, err := jsonValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		object = append(object, yaml.MapItem{Key: key, Value: v})
	}
	_, err = dec.Token()
	return object, err
}

// explainYAML words what the library says, without values of the file, which may be secret.
func explainYAML(err error, data []byte) (cause, next string) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return "it begins with { and is no valid JSON: " + cloudauth.Excerpt(err.Error(), 100), "correct it, or write YAML without { at the beginning"
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "unknown anchor") || strings.Contains(text, "did not find expected alphabetic or numeric character") {
		return "it is no valid YAML: a text that begins with * has to be in quotes", `write "*.example.com" in place of *.example.com`
	}
	parts := strings.Split(text, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "…"
	}
	next = "correct it"
	if bytes.Contains(data, []byte("\t")) {
		next = "YAML takes no tabs for indentation"
	}
	return "it is no valid YAML: " + cloudauth.Excerpt(strings.Join(parts, "`"), 200), next
}
