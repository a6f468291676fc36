// Package recording is what a manager has done in a group, of any cloud, and how it is kept in a file.
package recording
