// Package recording is what the existing manager has done in a group, and how it is kept in a file.
package recording
