// Package deletionguard decides whether the cloud's "not found" about a Node's instance is
// believed, upon which the framework deletes the Node, and whether an instance of a Node's
// name is taken for the Node's, which then bears its provider ID for life.
//
// The rule: nothing is believed missing, nor taken by its name, until an existing provider ID
// has resolved at this project and endpoint (the scope); then there is a limit to what may be
// missing at a time; then an operator's word lets go what is held.
//
// Evaluate is the whole decision and a pure function. Guard gathers what it needs beside the
// counts that its caller makes (what each scope has shown, how long a loss has lasted, the
// operator's word), and keeps what is held for Events, metrics and health checks.
//
// It asks no cloud, deletes nothing, and stores nothing: a new process knows no scope, which
// is the careful side, and learns them in its first round.
//
// The reason: credentials of another project or region answer "not found" about every
// instance, in the very words that the right ones have for what is gone, and may have
// instances of the same names. A cloud whose database was restored from nothing says so, too.
package deletionguard
