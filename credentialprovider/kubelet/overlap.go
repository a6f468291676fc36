package kubelet

import "strings"

// Overlap reports whether there may be an image that both patterns match.
func Overlap(a, b string) bool {
	x, errX := split(a)
	y, errY := split(b)
	return errX == nil && errY == nil && sameShape(x, y) && (strings.HasPrefix(x.path, y.path) || strings.HasPrefix(y.path, x.path))
}

// sameShape compares the hosts and the ports of two patterns, see labels.
func sameShape(a, b pattern) bool {
	if a.port != b.port || len(a.labels) != len(b.labels) {
		return false
	}
	for i := range a.labels {
		if !labels(a.labels[i], b.labels[i]) {
			return false
		}
	}
	return true
}

// labels reports whether two labels may stand for the same text. The * is the only wildcard that gets through
// the kubelet's reading of a pattern.
func labels(a, b string) bool {
	// reach[j] says whether a[i+1:] and b[j:] go together, for the i of the turn.
	reach := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		turn := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				turn[j] = true
			case i < len(a) && a[i] == '*':
				turn[j] = reach[j] || j < len(b) && turn[j+1]
			case j < len(b) && b[j] == '*':
				turn[j] = turn[j+1] || i < len(a) && reach[j]
			default:
				turn[j] = i < len(a) && j < len(b) && a[i] == b[j] && reach[j+1]
			}
		}
		reach = turn
	}
	return reach[0]
}
