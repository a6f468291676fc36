// Package deletionguard decides whether the cloud's "not found" about a Node's instance is
// believed, upon which the framework deletes the Node, and whether an instance of a Node's
// name is taken for the Node's, which then bears its provider ID for life. Credentials of
// another project or region say "not found" of all instances, in the very words that the
// right ones have for what is gone; so does a cloud whose database was restored from nothing.
//
// The rule: nothing is believed missing, nor taken by its name, until an existing provider ID
// has resolved at this project and endpoint (the scope); then there is a limit to what may be
// missing at a time; then an operator's word lets go what is held.
//
// Evaluate is the whole decision and a pure function. Guard gathers its Input, and keeps what
// is held for Events, metrics and health checks. Neither asks a cloud or deletes anything, and
// nothing is stored: a new process knows no scope, which is the careful side.
package deletionguard
