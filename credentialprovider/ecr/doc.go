// Package ecr gives the kubelet credentials for Amazon's registries: ECR of every account and region,
// which it knows by their host names, ECR Public, and registries that the configuration lists as
// mirrored through an ECR registry.
//
// A host name decides on the API endpoint as well: a FIPS host gets its token from the FIPS
// endpoint of its region, a dual-stack host from the dual-stack one, unless the environment has an endpoint of
// its own for ECR. STS is none of the host's business: where it is asked, and at which sort of endpoint, is for
// the environment and the AWS config files, as long as that is in the partition of the role.
//
// With the identity of service accounts, the pod's token is exchanged for the credentials of an
// IAM role (AssumeRoleWithWebIdentity), which the service account names in an annotation or else
// the configuration. Without a role there is an error: the node's credentials are never used instead.
package ecr
