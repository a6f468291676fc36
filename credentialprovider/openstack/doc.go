// Package openstack gives the kubelet credentials for image registries in an OpenStack
// cloud, by the sections [Registry "host:port"] of cloud.conf:
//
//   - type = keppel: the registry Keppel asks Keystone itself, so the login of [Global] is the
//     registry's as well. It is given to the registries that cloud.conf names and to no others.
//   - type = barbican, secret = …: the registry's credentials are kept in Barbican, as a secret
//     in the format of kubernetes.io/dockerconfigjson. It is read with the login of [Global];
//     only the entry for the image leaves this package.
//
// With the identity of service accounts, the pod's token is exchanged for one of Keystone (federation),
// with which Barbican is read; the login of [Global] is not used. Keppel takes no tokens from a container
// runtime, so that its registries need the node's identity.
package openstack
