// Package registration tells the API server of the webhooks: it keeps one
// MutatingWebhookConfiguration and one ValidatingWebhookConfiguration, both named "isthmus",
// as the flags want them (a Keeper), or removes them.
//
// Every ready replica keeps them, none leads; one that is not ready adds its CA, no more. What
// is as wanted is never written, so that in a steady state no replica writes. A change by
// someone else, or a deletion, is seen by a watch and put right, at a limited rate.
//
// Replicas may want different things, while new flags are rolled out. So each configuration
// carries a stamp: a number and the fingerprint of what is wanted. A replica that starts
// writes with the next higher number if something else stands there. A replica that sees a
// higher number of another fingerprint leaves it for some time: whoever wanted something last
// prevails, and the others speak up again only when it may be gone.
//
// The CAs to trust are no matter of who prevails: a replica adds its own, and those of others
// leave only when none of them objects.
package registration
