// Package core is what the services of a simulated OpenStack have in common: the Cloud, which is the lock of
// their state, their addresses and the changes that come later, and the API, which serves their calls with the log
// of requests, faults, hooks, tokens, microversions and TLS around every handler.
//
// It knows no service: each describes itself with a Service, which registers handlers with net/http patterns
// relative to its prefix, r.Handle("GET /v2.0/ports/{id}", s.showPort); r.Open is the same without a token.
//
// A handler is "func(c *core.Call) (*core.Reply, error)". It runs with the cloud's lock HELD: it may read and
// change all state and must neither block nor take the lock. Its reply is encoded before the lock is released, so it
// may point into the state. Errors are *core.Error; the service's ErrorBody gives them the shape that it uses.
//
// Delayed changes: After(delay, fn) runs fn with the lock held unless the simulator is closed first. Other
// goroutines: Spawn. Close ends and waits for all of them, without holding the lock.
//
// What one service needs of another is named here too (Ports, Owner), so that services need not import each other.
package core
