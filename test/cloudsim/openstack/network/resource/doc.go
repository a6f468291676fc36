// Package resource is what all of Neutron's objects have in common: an Entity with a name, tags and revisions, and a
// Kind that validates bodies against its attributes, creates, shows, changes and deletes, and lists with
// filters, order, pages and fields.
//
// It knows no kind of object: package network has them, their state, and what they do to each other.
package resource
