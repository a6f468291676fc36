// Package identity is Keystone: users, projects, roles, tokens and the catalog, application credentials, trusts and
// federation.
//
// It decides whom a token stands for (core.Identity), also for simulators that are further regions of its own. It
// does not check what a caller may do to another service's objects: that is the service's.
package identity
