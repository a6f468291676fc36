package decorate

import (
	"maps"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// snapshot holds the last answers about instances, one for each node. It has no lock.
type snapshot map[cloud.InstanceRef]entry

// entry is what is known about one node's instance.
type entry struct {
	// ref is what was asked.
	ref cloud.InstanceRef
	// instance is the answer; nil when a batch did not have it, which proves nothing yet.
	instance *cloud.Instance
	// scope is where a batch did not have it.
	scope string
	// began and arrived are the times of the read.
	began, arrived time.Time
	// err is why the last read failed, for failedRef, at failed. It is no answer and leaves
	// the last answer as it is.
	err       error
	failedRef cloud.InstanceRef
	failed    time.Time
}

// slot is where answers about ref's node are kept: under its name, so that they are found
// again when the node has got its provider ID, and only one is kept for a node.
func slot(ref cloud.InstanceRef) cloud.InstanceRef {
	if ref.NodeName != "" {
		return cloud.InstanceRef{NodeName: ref.NodeName}
	}
	return cloud.InstanceRef{ProviderID: ref.ProviderID}
}

// answers reports whether e answers ref: it was asked by ref, or the instance found for the
// node is the one that ref names by provider ID. What was asked by provider ID never
// answers a question by name: the node may have been made anew since.
func (e *entry) answers(ref cloud.InstanceRef) bool {
	if e.arrived.IsZero() {
		return false
	}
	if e.ref == ref {
		return true
	}
	return e.instance != nil && e.ref.NodeName == ref.NodeName &&
		ref.ProviderID != "" && e.instance.ProviderID == ref.ProviderID
}

// state is what the snapshot can say.
type state int

const (
	unknown state = iota // nothing that is fresh enough
	present              // the instance
	absent               // a batch did not have it: to be checked by a direct read
	failed               // a read has failed just now
)

// get says what is known of ref that arrived less than maxAge before now. Failures count
// for failureHold, or maxAge when that is shorter.
func (s snapshot) get(ref cloud.InstanceRef, now time.Time, maxAge time.Duration) (state, entry) {
	e, ok := s[slot(ref)]
	if !ok || maxAge <= 0 {
		return unknown, entry{}
	}
	if e.answers(ref) && now.Sub(e.arrived) < maxAge {
		if e.instance == nil {
			return absent, e
		}
		return present, e
	}
	if e.err != nil && e.failedRef == ref && now.Sub(e.failed) < min(failureHold, maxAge) {
		return failed, e
	}
	return unknown, entry{}
}

// scope is where ref's instance was seen last, however long ago; "" where that is not known.
func (s snapshot) scope(ref cloud.InstanceRef) string {
	if e := s[slot(ref)]; e.answers(ref) && e.instance != nil {
		return e.instance.Scope
	}
	return ""
}

// put records an answer, unless that of a later read is there. instance may be nil.
func (s snapshot) put(ref cloud.InstanceRef, instance *cloud.Instance, scope string, began, arrived time.Time) {
	at := slot(ref)
	if old, ok := s[at]; ok && old.began.After(began) {
		return
	}
	s[at] = entry{ref: ref, instance: instance, scope: scope, began: began, arrived: arrived}
}

// fail records a failed read.
func (s snapshot) fail(ref cloud.InstanceRef, err error, now time.Time) {
	at := slot(ref)
	e := s[at]
	e.err, e.failedRef, e.failed = err, ref, now
	s[at] = e
}

// sweep drops what is older than retention.
func (s snapshot) sweep(now time.Time) {
	maps.DeleteFunc(s, func(_ cloud.InstanceRef, e entry) bool {
		return now.Sub(e.arrived) >= retention && now.Sub(e.failed) >= retention
	})
}
