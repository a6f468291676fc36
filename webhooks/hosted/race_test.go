//go:build race

package hosted_test

// slowdown is by how much the race detector slows down what is measured here at most.
const slowdown = 20
