// Package cloud is the contract between Isthmus and a cloud: what a cloud has to
// answer and to do so that the controllers, the webhooks and the conformance suite
// work on it unchanged.
//
// Three rules hold for every implementation:
//
//   - Batch first. Whatever can be asked or changed for many objects at once is.
//   - Not found is evidence, never a default. Only the cloud's own positive answer that
//     an object does not exist is KindNotFound; whatever else goes wrong stays an error
//     of another kind. Nodes are deleted on KindNotFound.
//   - Every mutation is idempotent and restartable: after a crash between any two API
//     calls the next call converges and nothing is left behind.
//
// All methods of all interfaces may be called concurrently and honor their context.
package cloud
