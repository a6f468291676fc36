// Package openstack authenticates to OpenStack (Keystone v3): from the [Global] section of
// the cloud.conf that OpenStack's existing cloud controller manager reads, from clouds.yaml
// and from the environment, in that order. Passwords, application credentials, tokens,
// trusts, domain scope, private CAs and client certificates work.
//
// A Session authenticates at first use, renews its token when the cloud refuses it, and
// takes over changed credentials from the files it came from without a restart. All of its
// errors are one line, say what to do next, and hold no secret and no remote body of
// unbounded length.
//
// Errors of this package never wrap an answer of Keystone with its status code: a 404 from
// a mistyped auth-url must not be taken for a missing server. Use AsError to tell a refusal
// from an outage.
package openstack
