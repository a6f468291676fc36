// Package kubelet knows the other side of a credential provider: how a kubelet reads its
// CredentialProviderConfig, which entries it runs for an image, with what, and what it makes of
// the answer. The commands config and check are made of it; the provider itself needs none of it.
//
// A kubelet says little when a configuration is wrong: it does not start, or it never runs the
// provider and pulls without credentials. Everything found here is therefore a Finding that says
// where it is, what follows and what to do.
package kubelet
