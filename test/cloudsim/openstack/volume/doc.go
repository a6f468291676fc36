// Package volume is Cinder: volumes, their types and zones. Nothing is ever attached, and zones are those that Nova has.
package volume
