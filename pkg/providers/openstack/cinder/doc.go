// Package cinder answers in which zone the volume of a PersistentVolume is.
//
// It does not make, attach or label anything. Cinder cannot be asked for the volumes of some IDs,
// so it weighs reads against pages of a whole project's list, see Volumes.
package cinder
