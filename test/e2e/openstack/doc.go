// Package e2e holds no code of its own: its tests, behind the build tag e2e, run the real
// binaries with a real kube-apiserver against the real OpenStack that hack/openstack
// installs. `make e2e-openstack` runs them.
//
// With OCCM=PATH clusters are handed over between openstack-cloud-controller-manager and ours, and that it does
// here what was recorded of it in the simulator is seen (TestRecordingsHoldOnTheRealCloud; -update records it).
package e2e
