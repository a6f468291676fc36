// Package config is cloud.conf: its sections and keys as a typed struct, decoded, with defaults, and checked.
//
// The keys and their meanings are those of the existing manager. Unlike it, which passes over keys that it does not know and
// fails later on values that it cannot use, an unknown key or a bad value is an error here: all are told at once, each with
// file, section and key. What such a file can only have by mistake but the existing manager starts with, as an ID of another
// form than AWS' or a key that has no effect, is a warning.
//
// It does not reach a cloud, and no other package of the provider: whether an ID exists is found out where it is used.
package config
