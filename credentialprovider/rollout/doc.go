// Package rollout is the command install: it puts this program and a checked configuration on the node, restarts
// the kubelet, and puts the old configuration back where the kubelet does not run with the new one. How a file
// takes its place is the package install's.
package rollout
