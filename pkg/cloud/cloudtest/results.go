package cloudtest

import (
	"bytes"
	"fmt"
	"strings"
)

// Result is what was found of one feature.
type Result struct {
	Supported bool
	// Reason says why it is not.
	Reason string
}

// Results are what was found of each feature.
type Results map[Feature]Result

// Complete reports whether every feature is there.
func (r Results) Complete() bool { return len(r) == len(features()) }

const (
	wordSupported   = "supported"
	wordUnsupported = "unsupported: "
)

// Marshal writes results as golden files hold them: a line for each feature, its name, a
// tab, and "supported" or "unsupported: " and the reason.
func (r Results) Marshal() []byte {
	var b bytes.Buffer
	for _, f := range Features() {
		if res, ok := r[f]; ok {
			word := wordSupported
			if !res.Supported {
				word = wordUnsupported + res.Reason
			}
			fmt.Fprintf(&b, "%s\t%s\n", f, word)
		}
	}
	return b.Bytes()
}

// ParseResults reads what Marshal writes.
func ParseResults(data []byte) (Results, error) {
	out := Results{}
	for n, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		name, word, ok := strings.Cut(line, "\t")
		reason, unsupported := strings.CutPrefix(word, wordUnsupported)
		switch f := Feature(name); {
		case !ok || Describe(f) == "":
			return nil, fmt.Errorf("line %d: %.80q does not begin with a feature and a tab", n+1, line)
		case unsupported && reason != "":
			out[f] = Result{Reason: reason}
		case word == wordSupported:
			out[f] = Result{Supported: true}
		default:
			return nil, fmt.Errorf("line %d: %.80q is neither supported nor unsupported for a reason", n+1, word)
		}
	}
	return out, nil
}
