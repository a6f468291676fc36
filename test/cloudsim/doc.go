// Package cloudsim has what the simulated clouds share that a client reaches by their real names:
// the way in (Front: an HTTPS proxy with a CA of its own), the log of requests and the faults
// (part of it as well), and the OIDC issuer of a cluster whose service accounts a cloud trusts (Issuer).
//
// A simulator embeds a *Front, which it opens with the names that its cloud has and a handler; the
// handler reads the request, finds the operation, and hands both to Front.Answer.
package cloudsim
