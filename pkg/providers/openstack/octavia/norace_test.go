//go:build !race

package octavia

// cutsApart: each call is cut.
const cutsApart = 1
