// Package registration tells the API server of the webhooks: it keeps one
// MutatingWebhookConfiguration and one ValidatingWebhookConfiguration, both named "isthmus",
// as the flags want them (a Keeper), or removes them.
//
// One replica writes them: the one that holds a Lease of their own, for which those run that
// serve. What is as wanted is not written again. A change by someone else, or a deletion, is seen
// by a watch and put right, at a limited rate. While new flags are rolled out, the holder's count:
// when it ends it lets the Lease go, so that at the end of a rollout a new replica has it.
//
// The CAs to trust are no matter of who holds the Lease: a replica adds its own where webhooks are
// registered, before it is ready, and takes away what has expired then, and nothing else. Where
// cert-manager's cainjector writes the CAs, they are its alone.
package registration
