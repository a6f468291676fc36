// Package caller makes the calls to one provider: Caller each call of the contract, with a deadline,
// retries with jittered backoff, and metrics; Traffic what stands before every single request, so that
// a Retry-After is honored by service and endpoint, and the log has what changed the cloud.
//
// It remembers no answers, and does not know what is asked: see instancecache.
package caller
