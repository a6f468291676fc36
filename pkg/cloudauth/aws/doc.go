// Package aws authenticates to AWS. Credentials come from the first of these that is there, in
// the order of AWS' own SDKs, which do the work: the environment, a web identity of the
// environment (IRSA), the profile of the shared config files, the container endpoint (ECS, EKS
// Pod Identity), and the instance's role. Where a web identity token is given, as for a pod's
// service account, none of them is looked at. A role can be assumed on top of either.
//
// What differs from the SDK: the instance metadata service is spoken to in version 2 only, and
// neither it nor the container endpoint through a proxy; nothing is sent unencrypted but to
// this machine and to the link-local addresses of those two; shared config files that change
// are taken over without a restart; and errors are one line that says what to do, without
// anything secret in it.
package aws
