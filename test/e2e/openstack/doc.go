// Package e2e holds no code of its own: its tests, behind the build tag e2e, run the real
// binaries with a real kube-apiserver against the real OpenStack that hack/openstack
// installs. `make e2e-openstack` runs them.
package e2e
