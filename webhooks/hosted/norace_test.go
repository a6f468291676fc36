//go:build !race

package hosted_test

const slowdown = 1
