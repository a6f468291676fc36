// Package server hosts admission webhooks: TLS, decoding, limits, deadlines, drain, health
// and metrics. It is a controller-runtime Runnable that runs on every replica, leader or
// not, and takes controller-runtime's admission.Handler.
//
// Whatever goes wrong with a request, the answer is an AdmissionReview with a message and a
// code, so that the API server can tell its user what to do; or, where not even the request's
// uid is known, a Status with both.
//
// Nothing in a request is trusted to be small: what it may cost is reserved before its body is
// read (shares), and measured before anything is built of it (measure).
//
// It has its own http.Server instead of controller-runtime's webhook.Server, which ends the
// contexts of requests in flight at the very moment at which it starts to drain, and refuses
// clients that speak HTTP/1.1 only.
package server
