//go:build !race

package hosted_test

const slowdown, largerBy = 1, 1
