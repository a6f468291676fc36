// Package pvlabel is the controller that labels PersistentVolumes which slipped past the
// admission webhook of the same name, because it, or the cloud, was away when they were
// created. It takes the webhook's decision (package pv), with more care, since a
// PersistentVolume that exists may be in use:
//
//   - It only adds. Labels that contradict the cloud are somebody's intent: nothing is
//     written then, and an Event says so.
//   - Node affinity is for good, so it is added only where a Node fulfills it; labels, which
//     the scheduler heeds too, only where a Node that can be used now has them.
//   - Nothing is added to a PersistentVolume that is attached to a Node outside of its zone:
//     obviously that works here, and its Pod could not be scheduled again.
//
// What waits is decided together: however many PersistentVolumes there are, the cloud is
// asked once.
package pvlabel
