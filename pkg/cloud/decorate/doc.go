// Package decorate puts around a cloud's contract, once for every cloud, what its callers
// need and no cloud should write again:
//
//   - Instances: the per-node questions of the framework's controllers become few batches
//     (coalescing and a snapshot), and "not found" is checked by a direct read before
//     anybody hears it.
//   - Volumes: questions that arrive together are asked together; "not found" is checked, too.
//   - Routes: concurrent single-route changes become one set, lists are shared.
//   - LoadBalancers: calls for one load balancer never overlap.
//   - All of them: a deadline, retries with jittered backoff, and metrics.
//
// Traffic stands before every single request: it honors Retry-After by service and endpoint, and
// notes in the log what changed the cloud.
//
// An answer is only ever the cloud's: errors are not remembered as answers, and the last
// good answer is not served beyond the age its asker accepts, however long the cloud fails.
package decorate
