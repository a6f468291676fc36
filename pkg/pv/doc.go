// Package pv decides what a PersistentVolume lacks: the zone and region of the volume behind
// it, as labels and as node affinity, so that Pods are scheduled where the volume can be
// attached. The decision is pure; the admission webhook takes it when a PersistentVolume is
// created, and the backfill controller for those that slipped past the webhook.
package pv
