// Package decorate puts around a cloud's contract, once for every cloud, what its callers
// need and no cloud should write again. It only composes:
//
//   - caller makes every call, with a deadline, retries with jittered backoff and metrics, and
//     stands before every single request (Traffic);
//   - instancecache makes few batches of the per-node questions of the framework's controllers;
//   - deletionguard judges what would make a Node go;
//   - Volumes: questions that arrive together are asked together; "not found" is checked, too;
//   - Routes: of a set only what failed is tried again;
//   - LoadBalancers: calls for one load balancer never overlap.
//
// It decides nothing that is one cloud's, and changes no answer.
package decorate
