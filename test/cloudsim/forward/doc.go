// Package forward is the data plane of simulated load balancers: it listens on an address and passes connections,
// requests or datagrams on to members, and it asks members whether they live.
//
// It knows neither a cloud's objects nor their statuses: who listens says with a Target where traffic goes, and what the answer
// to a Probe means.
package forward
