// Package kubelet holds no code of its own: its tests, behind the build tag e2e, have a real
// kubelet with a real containerd pull images from real private registries (docker-registry)
// with the credentials of the real isthmus-credential-provider; only the clouds are
// simulated. `make e2e-kubelet` runs them, in namespaces of their own.
package kubelet
