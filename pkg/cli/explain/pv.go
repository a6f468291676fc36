package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/controllers/pvlabel"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
)

func explainPV(ctx context.Context, q *question) error {
	object, err := q.client.CoreV1().PersistentVolumes().Get(ctx, q.name, metav1.GetOptions{})
	if err != nil {
		return access.Failed(ctx, q.client, "read the PersistentVolume", err)
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
	return nil
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
		r.CloudNote = "volume " + ref.ID + " cannot be read"
		r.Plan.Note = "nothing to do until that is mended"
		return
	}
	r.fact("volume", ref.ID)
	r.fact("zones", strings.Join(v.Zones, ", "))
	r.fact("region", v.Region)
	r.owns(&cloud.Owned{Kind: "volume", ID: v.ID})
	q.backfill(ctx, object, v, ref.TopologyKey)
}

// backfill says what the persistentvolume-label-controller adds.
func (q *question) backfill(ctx context.Context, object *corev1.PersistentVolume, v *cloud.Volume, topologyKey string) {
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
	switch {
	case err != nil:
		r.problem("zone and region cannot be added: "+err.Error(), "correct what it says")
	case len(contradictions) > 0:
		r.problem("nothing is added, as this is not what the cloud says: "+strings.Join(contradictions, "; "), "correct or remove the label, or add "+pv.OptOutLabel+"=true to keep it")
	case m.Empty() && trusted:
		r.Plan.Note = "nothing to do: its provisioner has said where the volume is"
	case m.Empty():
		r.Plan.Note = "nothing to do: the cloud binds the volume to no place that it lacks"
	default:
		q.fit(ctx, object, m)
	}
}

// fit says what of m is added, as not all of it may be.
func (q *question) fit(ctx context.Context, object *corev1.PersistentVolume, m pv.Mutation) {
	r, call := q.report, "PATCH /api/v1/persistentvolumes/"+object.Name
	nodes, err := q.allNodes(ctx)
	var attached []string
	if err == nil {
		attached, err = q.attached(ctx, object.Name)
	}
	if err != nil {
		q.failed("whether it may be added cannot be told", err, "let the user of the kubeconfig list Nodes and VolumeAttachments")
		return
	}
	f := pvlabel.FitOf(object, m, nodes, attached)
	for _, key := range slices.Sorted(maps.Keys(f.Mutation.Labels)) {
		r.kube("add the label "+key+"="+f.Mutation.Labels[key], call)
	}
	for _, n := range f.Mutation.Requirements {
		r.kube("require of Nodes: "+inWords(n), call)
	}
	switch {
	case f.Elsewhere != nil:
		r.problem(fmt.Sprintf("nothing is added, as it is attached to Node %s, which is not where the cloud has the volume", f.Elsewhere.Name),
			"if volumes may be attached outside of their zone, turn their zones off in cloud.conf; otherwise move the Pod")
	case f.Stuck != nil && (len(nodes) == 0 || slices.ContainsFunc(nodes, lb.IsNew)):
		r.Plan.Note = "nothing to do until a Node that it can be used on is in " + inWords(f.Stuck...)
		return
	case f.Stuck != nil:
		r.problem("nothing is added, as no Node that it can be used on is in "+inWords(f.Stuck...), "compare the labels of the Nodes with the cloud's zones")
	case f.Waits != nil:
		r.Plan.Note = "node affinity waits for a Node in " + inWords(f.Waits...)
	}
	if f.Mutation.Empty() {
		return
	}
	r.Plan.Note = strings.TrimPrefix(r.Plan.Note+"; persistentvolume-label-controller does this where it runs (--controllers)", "; ")
}

func inWords(place ...corev1.NodeSelectorRequirement) string {
	var parts []string
	for _, n := range place {
		parts = append(parts, n.Key+"="+strings.Join(n.Values, "|"))
	}
	return strings.Join(parts, ", ")
}

// attached are the names of the Nodes that a PersistentVolume is attached to.
func (q *question) attached(ctx context.Context, name string) (out []string, err error) {
	err = access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := q.client.StorageV1().VolumeAttachments().List(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, a := range list.Items {
			if v := a.Spec.Source.PersistentVolumeName; v != nil && *v == name && a.Status.Attached {
				out = append(out, a.Spec.NodeName)
			}
		}
		return list, nil
	})
	if err != nil {
		return nil, access.Failed(ctx, q.client, "list VolumeAttachments", err)
	}
	return out, nil
}
