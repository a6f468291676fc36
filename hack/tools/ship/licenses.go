package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licenses under which things may be linked in: those of the CNCF's list that
// occur. Another one is somebody's decision, not an accident.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "Unlicense"}

// sure is how much of a license's text has to match.
const sure = 0.9

// classify finds out which licenses the modules have, or fails for all without, and with one that is
// not allowed.
func (b *binary) classify() error {
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return err
	}
	var errs []error
	seen := map[string][]string{} // by text
	for _, m := range b.modules {
		for _, file := range slices.Sorted(maps.Keys(m.texts)) {
			text := m.texts[file]
			if _, ok := seen[text]; !ok {
				seen[text] = nil
				for _, match := range classifier.Match([]byte(text)).Matches {
					if match.MatchType == "License" && match.Confidence >= sure {
						seen[text] = append(seen[text], match.Name)
					}
				}
			}
			m.licenses = append(m.licenses, seen[text]...)
		}
		slices.Sort(m.licenses)
		m.licenses = slices.Compact(m.licenses)
		if len(m.licenses) == 0 {
			errs = append(errs, fmt.Errorf("%s %s: no license is found in it", m.path, m.version))
		}
		for _, l := range m.licenses {
			if !slices.Contains(allowed, l) {
				errs = append(errs, fmt.Errorf("%s %s: its license %s is none of %s", m.path, m.version, l, strings.Join(allowed, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

// licenses returns the texts, each once, with the modules that have it.
func (b *binary) licenses() []byte {
	holders := map[string][]string{}
	for _, m := range b.modules {
		for _, file := range slices.Sorted(maps.Keys(m.texts)) {
			text := m.texts[file]
			holders[text] = append(holders[text], fmt.Sprintf("%s %s, %s (%s)", m.path, m.version, file, strings.Join(m.licenses, " AND ")))
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s is licensed under Apache-2.0. What follows are the licenses and notices of the\nGo modules that are linked into it, whose source code is to be had by their paths and versions.\n", b.name, b.version)
	line := strings.Repeat("=", 80)
	texts := slices.SortedFunc(maps.Keys(holders), func(x, y string) int { return strings.Compare(holders[x][0], holders[y][0]) })
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s\n", line, strings.Join(holders[text], "\n"), line, text)
	}
	return out.Bytes()
}
