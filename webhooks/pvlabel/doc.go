// Package pvlabel is the admission webhook that gives PersistentVolumes the zone and region
// of the volume behind them, as labels and as node affinity, so that Pods are scheduled
// where the volume can be attached. It takes the place of the API server's former admission
// plugin PersistentVolumeLabel.
//
// The decision is that of package pv; Handler asks the cloud and speaks AdmissionReview.
package pvlabel
