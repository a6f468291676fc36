// Package nearest finds what a mistyped name was meant to be: a flag, a key of a
// configuration file, an annotation.
package nearest

import "strings"

// Of returns the name that typed was probably meant to be, the first of several that are
// as near; "" when none is near enough, that is when more than a third of the letters, and
// more than two, would have to change. Case and the difference of "_" and "-" do not count.
func Of(typed string, names []string) string {
	return Within(typed, names, max(2, min(len(typed)/3, 6)))
}

// Within is Of for names of which at most so many letters would have to change.
func Within(typed string, names []string, letters int) string {
	best, bestDistance := "", letters+1
	for _, name := range names {
		if gap := len(typed) - len(name); max(gap, -gap) >= bestDistance {
			continue
		}
		if d := distance(normal(typed), normal(name)); d < bestDistance && d < len(name) {
			best, bestDistance = name, d
		}
	}
	return best
}

func normal(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// distance is the least number of letters to insert, delete, replace or swap with their
// neighbor that makes b of a.
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			replace := previous[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			current[j] = min(previous[j]+1, current[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
