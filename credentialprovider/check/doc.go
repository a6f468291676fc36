// Package check finds what is wrong with the kubelet's credential providers on a node, or with what is about
// to be installed there: what the kubelet would refuse, what the program would, what others than root could
// change, and what an image would get. It changes nothing, and asks no cloud but through the providers that
// it tries.
package check
