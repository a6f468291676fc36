package pvlabel

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

// candidate is a PersistentVolume that lacks something.
type candidate struct {
	object *corev1.PersistentVolume
	ref    cloud.VolumeRef
	// trusted tells that mutation comes from its provisioner's labels and the cloud need not be asked.
	trusted  bool
	mutation pv.Mutation
	// nodes is what Controller.nodeChanges was when the decision began.
	nodes uint64
	// waits is the node affinity that was taken out of mutation, as no Node fulfills it yet.
	waits []corev1.NodeSelectorRequirement
}

// candidate looks into the PersistentVolume as far as that goes without the cloud; nil when
// there is nothing to do.
func (c *Controller) candidate(name string) *candidate {
	object, err := c.PersistentVolumes.Lister().Get(name)
	if err != nil || !concerns(object) || c.settled(object) { // no other error than that it is gone
		return nil
	}
	ref, ok, err := c.Volumes.Ref(object)
	if err != nil {
		c.invalid(object, err)
		return nil
	}
	if !ok {
		c.settle(object) // another's, or no volume yet
		return nil
	}
	n := &candidate{object: object, ref: ref}
	if n.mutation, n.trusted, err = pv.BackfillTrusted(object); err != nil {
		c.invalid(object, err)
		return nil
	}
	if n.trusted && n.mutation.Empty() {
		c.settle(object)
		return nil
	}
	return n
}

// ask asks the cloud about all, and returns those to which something is to be added.
func (c *Controller) ask(ctx context.Context, asked []*candidate, refs []cloud.VolumeRef) []*candidate {
	results := c.Volumes.Find(ctx, refs)
	var ready []*candidate
	for k, n := range asked {
		switch {
		case ctx.Err() != nil:
			return nil
		case k >= len(results):
			c.unknown(ctx, n, cloud.Errorf(cloud.KindUnknown, "the cloud gave %d answers to %d questions", len(results), len(refs)))
		case results[k].Err != nil:
			c.unanswered(ctx, n, results[k].Err)
		case results[k].Value == nil:
			c.unknown(ctx, n, cloud.Errorf(cloud.KindUnknown, "the cloud gave no answer about volume %s", n.ref.ID))
		case c.decide(n, results[k].Value):
			ready = append(ready, n)
		}
	}
	return ready
}

// decide reports whether something is to be added.
func (c *Controller) decide(n *candidate, v *cloud.Volume) bool {
	m, contradictions, err := pv.Backfill(n.object, v, n.ref.TopologyKey)
	switch {
	case err != nil:
		c.invalid(n.object, err)
	case len(contradictions) > 0:
		c.Metrics.count(resultContradicted)
		c.once(n.object, reasonContradiction,
			"Nothing was added, as this is not what the cloud says of volume %s: %s; correct or remove the label, or add %s=true to keep it",
			n.ref.ID, strings.Join(contradictions, "; "), pv.OptOutLabel)
		c.settleForNow(n.object)
	case m.Empty():
		c.settle(n.object)
	default:
		n.mutation = m
		return true
	}
	return false
}

// invalid ends the matter until the PersistentVolume changes: the cloud cannot be asked, or
// has said what no label can hold.
func (c *Controller) invalid(object *corev1.PersistentVolume, err error) {
	c.Metrics.count(resultFailed)
	c.once(object, reasonInvalid, "Zone and region cannot be added: %v", err)
	c.settle(object)
}

// unanswered sorts the cloud's errors.
func (c *Controller) unanswered(ctx context.Context, n *candidate, err error) {
	switch cloud.KindOf(err) {
	case cloud.KindNotFound:
		c.Metrics.count(resultFailed)
		c.once(n.object, reasonNotFound,
			"Volume %s does not exist in the cloud, as far as its project shows, so its zone cannot be added; if it is another project's, add %s=true to keep it as it is: %v",
			n.ref.ID, pv.OptOutLabel, err)
		c.settleForNow(n.object)
	case cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict, cloud.KindQuota, cloud.KindFailed:
		c.Metrics.count(resultFailed)
		c.once(n.object, reasonInvalid, "Zone and region cannot be added: volume %s: %v", n.ref.ID, err)
		c.settleForNow(n.object)
	default:
		c.unknown(ctx, n, err)
	}
}

// unknown tries again later, as the cloud has said nothing.
func (c *Controller) unknown(ctx context.Context, n *candidate, err error) {
	c.Metrics.count(resultFailed)
	klog.FromContext(ctx).V(2).Info("PersistentVolume is not labeled for now, will try again", "persistentVolume", klog.KObj(n.object), "volume", n.ref.ID, "reason", err.Error())
	if c.queue.NumRequeues(n.object.Name) >= quietTries {
		text := "Zone and region cannot be read from the cloud, will try again: volume %s: %v"
		if cloud.KindOf(err) == cloud.KindDenied {
			text = "The cloud refuses to show volume %s to the cloud controller manager, check its credentials and their project; will try again: %v"
		}
		c.once(n.object, reasonUnknown, text, n.ref.ID, err)
	}
	c.queue.AddRateLimited(n.object.Name)
}
