// Package wire has the rules for requests that carry credentials, for all clouds: they go to the one
// host that is meant, because redirects are not followed; unencrypted to nobody but what is on this
// machine or next to it, and then through no proxy; answers are bounded; and what can pass is tried
// again. Client sends requests by these rules; an SDK that has a client of its own gets the rules one by one.
package wire
