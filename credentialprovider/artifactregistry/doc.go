// Package artifactregistry gives the kubelet credentials for Google's registries, Artifact Registry
// (*.pkg.dev, docker.*.rep.pkg.dev) and Container Registry (gcr.io, *.gcr.io), and for registries that the configuration
// lists as mirrored through one of them.
//
// The password is an OAuth access token, which Google has no narrower sort of: it opens whatever
// its owner may read. So it is asked for with the narrowest scope that pulls, read-only
// access to storage (devstorage.read_only): Google documents it for pulling from both, and
// nodes have it by default, where cloud-platform.read-only would read everything else as well and
// is none of their scopes. The answer is for the one registry that the image names.
//
// With the identity of service accounts, the pod's token is exchanged at Google's STS for a token
// of its own principal in a workload identity pool, with which the Google service account that
// the pod's names in an annotation is impersonated, if it names one. The node's identity is never
// used instead.
package artifactregistry
