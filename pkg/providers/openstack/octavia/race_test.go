//go:build race

package octavia

// cutsApart: the race detector looks at what runs at once, which is the same at each cut, and takes ten times as long.
const cutsApart = 5
