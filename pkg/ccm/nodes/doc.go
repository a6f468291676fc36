// Package nodes lets the framework's controllers of Nodes work with a decorated cloud: it answers what they ask, node by
// node, out of reads of many, sends what they write only where it changes something, and tells what the deletion guard
// holds. It is the only adapter to k8s.io/cloud-provider. It decides nothing about a Node.
package nodes

//go:generate go run ../../../hack/gen-events ../../.. ../../../docs/reference/events.md
