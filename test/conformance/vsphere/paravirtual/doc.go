// Package paravirtual is the world of the conformance suite for the paravirtual mode: a real kube-apiserver as the Supervisor, with
// the kinds of VM Operator and NSX as testdata has them, and a loop in place of VM Operator and NSX.
package paravirtual
