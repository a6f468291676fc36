// Package acr gives the kubelet credentials for Azure Container Registry, which it knows by the host names
// of its clouds, further login servers that the configuration lists, and registries that are mirrored
// through one of these.
//
// A token of Entra ID for container registries is exchanged at the registry for a refresh token of the registry
// ("Azure Container Registry integration with Azure Active Directory"). It is sent to the registry alone, and only once
// that has shown to be one: its challenge has to name itself as the place where tokens come from.
//
// With the identity of service accounts, the pod's token is the proof of an application or a user-assigned managed
// identity that trusts the cluster's issuer (a federated credential). Which one it is, the service
// account says in annotations or else the configuration. Without one there is an error: the node's
// identity is never used instead.
package acr
