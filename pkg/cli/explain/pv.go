package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

func explainPV(ctx context.Context, q *question) error {
	object, err := q.client.CoreV1().PersistentVolumes().Get(ctx, q.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the PersistentVolume: %w", err)
	}
	r := q.report
	r.Object = "persistentvolume/" + object.Name
	if q.cloud.Volumes == nil {
		r.fact("volume", "cloud "+q.cloud.Name+" labels no PersistentVolumes with this configuration")
		r.Plan.Note = "nothing to do"
		r.CloudNote = "volumes are not looked at there"
		return nil
	}
	q.volume(ctx, object)
	return context.Cause(ctx)
}

// volume says what the webhook makes of the PersistentVolume at its creation, and what the controller adds to it now.
func (q *question) volume(ctx context.Context, object *corev1.PersistentVolume) {
	r := q.report
	_, trusted, err := pv.Trusted(object)
	switch {
	case err != nil:
		r.problem("the webhook refuses such a PersistentVolume: "+err.Error(), "correct the label")
	case trusted:
		r.fact("webhook", "trusts its provisioner, which has said where the volume is; the cloud is not asked")
	default:
		r.fact("webhook", "asks the cloud where the volume is, at the creation of such a PersistentVolume")
	}
	ref, ours, err := q.cloud.Volumes.Ref(object)
	if err != nil {
		r.problem("its volume cannot be told: "+err.Error(), "correct the volume's ID in the PersistentVolume's spec")
		return
	}
	if !ours {
		r.fact("volume", "none of cloud "+q.cloud.Name+", or not made yet")
		r.Plan.Note = "nothing to do: it is another's, or has no volume yet"
		r.CloudNote = "the PersistentVolume names no volume there"
		return
	}
	v, err := q.cloud.Volumes.Get(ctx, ref)
	if err != nil {
		q.failed("volume "+ref.ID, err, "correct the volume's ID, or the credentials and their project; "+pv.OptOutLabel+"=true keeps the PersistentVolume as it is")
		r.CloudNote = "volume " + ref.ID + " was not found"
		return
	}
	r.fact("volume", ref.ID)
	r.fact("zones", strings.Join(v.Zones, ", "))
	r.fact("region", v.Region)
	r.owns(&cloud.Owned{Kind: "volume", ID: v.ID})
	q.backfill(object, v, ref.TopologyKey)
}

// backfill says what the persistentvolume-label-controller adds.
func (q *question) backfill(object *corev1.PersistentVolume, v *cloud.Volume, topologyKey string) {
	r := q.report
	switch {
	case object.Labels[pv.OptOutLabel] == "true":
		r.Plan.Note = "nothing to do: it has the label " + pv.OptOutLabel + "=true"
		return
	case object.DeletionTimestamp != nil:
		r.Plan.Note = "nothing to do: it is being deleted"
		return
	case !pv.Lacks(object):
		r.Plan.Note = "nothing to do: it has a zone, a region and a node affinity"
		return
	}
	m, trusted, err := pv.BackfillTrusted(object)
	var contradictions []string
	if err == nil && !trusted {
		m, contradictions, err = pv.Backfill(object, v, topologyKey)
	}
	call := "PATCH /api/v1/persistentvolumes/" + object.Name
	switch {
	case err != nil:
		r.problem("zone and region cannot be added: "+err.Error(), "correct what it says")
	case len(contradictions) > 0:
		r.problem("nothing is added, as this is not what the cloud says: "+strings.Join(contradictions, "; "), "correct or remove the label, or add "+pv.OptOutLabel+"=true to keep it")
	case m.Empty():
		r.Plan.Note = "nothing to do: the cloud binds the volume to no place that it lacks"
	default:
		for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
			r.kube("add the label "+key+"="+m.Labels[key], call)
		}
		for _, q := range m.Requirements {
			r.kube("require of Nodes: "+q.Key+" in "+strings.Join(q.Values, ", "), call)
		}
		r.Plan.Note = "if persistentvolume-label-controller runs, and unless the volume is attached elsewhere, or no Node is there"
	}
}
