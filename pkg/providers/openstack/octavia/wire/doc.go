// Package wire is Octavia's API: its JSON, to plan's types and back, and one function a call.
//
// It decides nothing and waits for nothing. Reads that several operations ask for at a time are made
// together, and no more changes are under way than Octavia does at a time.
package wire
