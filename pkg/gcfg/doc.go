// Package gcfg reads cloud.conf, whose syntax is that of the existing cloud controllers (gopkg.in/gcfg.v1), into a struct.
//
// It is as forgiving as they are in what it takes, tells all mistakes at once with the lines they are in, and shows no
// values but those that are no secrets. What the values mean is its callers' matter.
package gcfg
