// Package joint is group commit for an object of a cloud that many Services change: a load
// balancer that all share, one list of firewall rules, the security groups of a Node's port. Each
// Service is a tenant that says what it wants there; a pass brings the wishes of many tenants into
// the object with one write. 100 Services that change at once are a few writes, and not 100 that
// refuse each other for being stale.
//
// It does: gather what comes in quick succession; run one pass at a time for each object, which is
// named by a key, and any number of objects at once; keep nobody waiting for it: who asks is told
// KindRetryAfter, again calls when the pass has ended, and whoever asks then gets the answer;
// repeat a pass that found the object changed by others (KindStale); find the tenant because of
// which the object refuses all of them, so that the others are served.
//
// It does not: know what is in the object, remember what tenants wanted once their pass has ended,
// or take a tenant's silence for its going. A pass must hold to this as well: it reads the object,
// puts in what its own tenants want, takes out what its own tenants have there, and leaves
// everything else as it is. Then the few tenants that come first after a restart remove nothing of
// those that come later, and what others have made stays.
//
// Why no passes over all tenants: what is in the object is the only truth. A copy of it here would
// be partial after each restart, and wrong whenever somebody else writes.
//
// Why the refused set is halved, and not tried one by one: with one bad tenant among n it costs
// log2(n) + 3 passes instead of n. A tenant that was refused alone is tried apart from the others
// the next time, so that it delays them once. An outage, throttling and missing permissions are
// nobody's fault: then all are told, and nothing is halved.
package joint
