// Package kubeletserving approves the certificates with which kubelets serve (signer kubernetes.io/kubelet-serving),
// where each address in the request is one that the cloud gives the Node's instance at that moment.
//
// It denies nothing: what it is not sure of stays as it is, for somebody else to decide, with an Event that says why. A
// denial would be for good, while the cloud's word may come late, and it would take nothing from who forges, who may ask
// again.
//
// It trusts no status of a Node, which the kubelet writes, and signs nothing.
package kubeletserving
