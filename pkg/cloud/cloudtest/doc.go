// Package cloudtest is the conformance suite that every cloud runs, against its simulator and
// against the real thing, unchanged.
//
// The suite drives a cloud through the contract of pkg/cloud alone and looks at what has
// become of the cloud through a World, which the cloud's author writes with the cloud's own
// API. What a cloud lacks it declares, with the reason, in Setup.Unsupported. The suite tries
// that all the same: a declared-unsupported feature that works is a failure, and so is one
// that the provider neither refuses nor warns about. So each feature ends as supported or as
// unsupported for a reason; nothing is skipped.
//
// Every feature is checked by a provider of its own, made anew as a started process makes it,
// for Services of its own, so that features run in parallel (go test -parallel). At the end
// of each, all that carries the marks of its Services must be gone, and at the end of the
// suite all that the World had not held before.
package cloudtest
