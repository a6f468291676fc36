package openstack

import "strings"

// nearest returns the name that was probably meant by a mistyped one, "" when none is near
// enough: a third of the letters may be wrong.
func nearest(typed string, names []string) string {
	best, bestDistance := "", len(typed)/3+1
	for _, name := range names {
		if d := distance(normal(typed), normal(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

func normal(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// distance is the least number of letters to insert, delete, replace or swap with their
// neighbor that makes b of a.
func distance(a, b string) int {
	before, previous := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current := make([]int, len(b)+1)
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
		before, previous = previous, current
	}
	return previous[len(b)]
}
