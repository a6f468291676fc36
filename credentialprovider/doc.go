// Package credentialprovider answers the kubelet's requests for image registry credentials
// (KEP-2133): one CredentialProviderRequest on stdin, one CredentialProviderResponse on
// stdout. Each kind of registry is a sub-package that implements Provider, and a Set of them
// answers a request: the first that serves the image's registry is asked, as the node or as the
// pod's service account (KEP-4412), whichever the kind is configured for.
//
// It never answers with empty credentials, unless the user lists the registry as anonymous:
// what it cannot serve is an error, which the kubelet logs, because an empty answer would be
// cached and the pull would fail later without a reason.
//
// The wire types are the package's own and not those of k8s.io/kubelet: three small structs
// that have not changed since Kubernetes 1.20 but for two fields, against 8 MB of API
// machinery in a binary that lies on every node and is started for every pull.
package credentialprovider
