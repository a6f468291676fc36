package pvlabel

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

// Reasons of events about PersistentVolumes. The comments are what docs/reference/events.md says of each.
const (
	// Normal on PersistentVolume: it was given the labels and the node affinity of its volume's zone.
	reasonLabeled = "ZoneAdded"
	// Warning on PersistentVolume: its labels or node affinity are not those of the volume, and stay. Next: correct or delete them, if the
	// volume is where the event says.
	reasonContradiction = "ZoneContradicted"
	// Warning on PersistentVolume: it is attached to a Node outside of the zone, so nothing is added. Next: look whether the event's volume
	// is the one in use.
	reasonElsewhere = "AttachedOutsideOfZone"
	// Warning on PersistentVolume: no Node is in the volume's zone. Next: make Nodes there, or look at the zones of Nodes and volumes.
	reasonNoNodes = "ZoneWithoutNodes"
	// Warning on PersistentVolume: the cloud has no such volume. Next: look at the volume's ID, and at the account or project of the
	// credentials.
	reasonNotFound = "VolumeNotFound"
	// Warning on PersistentVolume: zone or region cannot be added to it. Next: mend what the event says.
	reasonInvalid = "ZoneInvalid"
	// Warning on PersistentVolume: the cloud has not told where the volume is, and is asked again. Next: mend what the event says.
	reasonUnknown = "ZoneUnknown"
	// Warning on PersistentVolume: the API server did not take the labels, and it is tried again. Next: mend what the event says.
	reasonFailed = "ZoneNotAdded"
)

// quietTries is how many failures in a row are no event: most heal at once.
const quietTries = 2

// state is what of a PersistentVolume the decision depends on. Its spec's source never changes.
type state struct {
	zone, region, betaZone, betaRegion string
	hasZone, hasRegion, affinity       bool
}

func stateOf(object *corev1.PersistentVolume) state {
	s := state{
		betaZone: object.Labels[corev1.LabelFailureDomainBetaZone], betaRegion: object.Labels[corev1.LabelFailureDomainBetaRegion],
		affinity: object.Spec.NodeAffinity != nil,
	}
	s.zone, s.hasZone = object.Labels[corev1.LabelTopologyZone]
	s.region, s.hasRegion = object.Labels[corev1.LabelTopologyRegion]
	return s
}

// note is what is known of a PersistentVolume in a state.
type note struct {
	state state
	// settled tells that there is nothing to do until the state changes or a resync; but not
	// after until, where that is not zero.
	settled bool
	until   time.Time
	// waits, if not empty, is where a Node has to be for there to be something to do at once.
	waits []corev1.NodeSelectorRequirement
	name  string
	// said are the reasons of the events that were published.
	said map[string]bool
}

// note returns the note on object as it is; c.mu is held.
func (c *Controller) note(object *corev1.PersistentVolume) *note {
	s := stateOf(object)
	n := c.notes[object.UID]
	if n == nil || n.state != s {
		n = &note{state: s, name: object.Name, said: map[string]bool{}}
		c.notes[object.UID] = n
	}
	return n
}

func (c *Controller) settled(object *corev1.PersistentVolume) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.notes[object.UID]
	return n != nil && n.settled && n.state == stateOf(object) && (n.until.IsZero() || c.Clock.Now().Before(n.until))
}

// settle notes that there is nothing to do, and ends retries.
func (c *Controller) settle(object *corev1.PersistentVolume) {
	c.settleUntil(object, time.Time{}, nil)
}

// settleForNow does so for a while, after which object is looked at again.
func (c *Controller) settleForNow(object *corev1.PersistentVolume) {
	c.settleUntil(object, c.Clock.Now().Add(recheck), nil)
	c.queue.AddAfter(object.Name, recheck)
}

// awaitNode does so until a Node appears where object's place is. nodes is what nodeChanges
// was before the Nodes were read.
func (c *Controller) awaitNode(object *corev1.PersistentVolume, place []corev1.NodeSelectorRequirement, nodes uint64) {
	c.settleUntil(object, c.Clock.Now().Add(recheck), place)
	if c.nodeChanges.Load() != nodes { // it may have appeared before the note
		c.reopen(object.UID)
		c.queue.AddAfter(object.Name, again)
		return
	}
	c.queue.AddAfter(object.Name, recheck)
}

func (c *Controller) settleUntil(object *corev1.PersistentVolume, until time.Time, waits []corev1.NodeSelectorRequirement) {
	c.mu.Lock()
	n := c.note(object)
	n.settled, n.until, n.waits = true, until, waits
	c.mu.Unlock()
	c.queue.Forget(object.Name)
}

// reopen has a settled one looked at again.
func (c *Controller) reopen(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.notes[uid]; n != nil {
		n.settled = false
	}
}

// appeared has those looked at again that wait for a Node where node is.
func (c *Controller) appeared(node *corev1.Node) {
	c.nodeChanges.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.notes {
		if n.settled && len(n.waits) > 0 && pv.Matches(node.Labels, n.waits) {
			n.settled = false
			c.queue.Add(n.name)
		}
	}
}

func (c *Controller) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.notes, uid)
}

// once publishes an event about object, unless there was one of that reason since it changed.
func (c *Controller) once(object *corev1.PersistentVolume, reason, format string, args ...any) {
	kind := corev1.EventTypeWarning
	if reason == reasonLabeled {
		kind = corev1.EventTypeNormal
	}
	if c.say(object, reason) {
		c.Recorder.Eventf(object, kind, reason, format, args...)
	}
}

// say notes that there was an event of that reason, and reports whether it is the first.
func (c *Controller) say(object *corev1.PersistentVolume, reason string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.note(object)
	said := n.said[reason]
	n.said[reason] = true
	return !said
}
