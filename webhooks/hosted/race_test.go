//go:build race

package hosted_test

// By how much the race detector makes what is measured here slower and larger at most: it has
// pools forget at random.
const slowdown, largerBy = 20, 4
