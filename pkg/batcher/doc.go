// Package batcher makes one read of what many ask for at a time, so that hundreds who ask at once cost the
// cloud a few requests.
//
// It remembers nothing: what is answered was read after it was asked for. What one read asks the cloud,
// and what a key is, it does not know. What is kept for later askers is instancecache's.
package batcher
