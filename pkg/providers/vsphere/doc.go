// Package vsphere composes what is served of vSphere: the machines of one or several vCenters, each with one session, from
// vsphere.conf.
//
// Load balancers and routes of NSX-T are not served, and there is no registry for the credential provider. Several vCenters are one
// cloud: a Node is gone only where each of them says so.
//
// The paravirtual mode is a provider of its own, in the folder below. The conformance suite runs it against govmomi's simulator
// (test/cloudsim/vsphere), and test/differential/vsphere compares it with the existing manager there.
package vsphere
