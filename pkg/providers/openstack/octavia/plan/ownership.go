package plan

import (
	"slices"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
)

// Whose a load balancer is. The first row that applies decides; "our name" is the one that the
// Service and today's --cluster-name make, "a name of ours" one that the Service and any
// cluster name make.
//
//	| load balancer                                          | is                              |
//	|--------------------------------------------------------|---------------------------------|
//	| another project's, as an administrator sees them       | refused                         |
//	| a name of ours, our cluster's tag                      | the Service's                   |
//	| our name, another cluster's tag                        | refused                         |
//	| our name, no cluster's tag, evidence                   | the Service's; gets the tag     |
//	| our name, no cluster's tag, no evidence                | refused                         |
//	| named a<UID of the Service>, no other cluster's tag    | the Service's; gets the tag     |
//	| a name of ours, no cluster's tag, both evidences, of   | the Service's; gets the tag     |
//	| them the address in the status, no tag of the Service  |                                 |
//	| under another name                                     |                                 |
//	| any other with the Service's tag and listeners that    | refused                         |
//	| have it, none of them with our cluster's, and whose    |                                 |
//	| address the Service has not published                  |                                 |
//	| any other that the annotation load-balancer-id names   | shared                          |
//
// Evidence is that the annotation has its ID, or that the Service has published the address of
// its VIP or floating IP: others' controllers leave both. What we make carries the cluster's
// tag from the first moment on. A name alone is no evidence: clusters of one name in one
// project make the same.
//
// Everything keeps the name that it was made under: a changed --cluster-name renames nothing,
// and what is added to a load balancer later is named as the rest of it is.

// Evidence is what a Service tells of its load balancer.
type Evidence struct {
	ID        string // of the annotation
	Published []string
	Status    []string // the part of Published that the Service's user cannot write
}

// EvidenceOf reads a Service's evidence.
func EvidenceOf(ref cloud.LoadBalancerRef) Evidence {
	ev := Evidence{ID: ref.Settings.String(AnnLoadBalancerID, ""), Published: published(ref), Status: ref.IngressIPs()}
	if len(ev.Status) == 0 && len(ref.CurrentIngress) > 0 { // host names: then only the annotation has the address
		ev.Status = ev.Published
	}
	return ev
}

// published are the addresses that a Service has published.
func published(ref cloud.LoadBalancerRef) []string {
	out := ref.IngressIPs()
	if a := ref.Settings.String(AnnAddress, ""); a != "" {
		out = append(out, a)
	}
	return out
}

// Shows reports whether addresses that the Service has published are a VIP of the load balancer.
func Shows(published []string, lb *LoadBalancer) bool {
	second := lb.SecondAddress()
	return slices.Contains(published, lb.VIPAddress) || second != "" && slices.Contains(published, second)
}

// Judge is cloud.Judge for a load balancer: names are those that the Service's things on it have if it is
// its. shown asks whether one of some addresses is the load balancer's.
func (n Names) Judge(ev Evidence, lb *LoadBalancer, shown func(published []string) (bool, error)) (names Names, whose cloud.Ownership, err error) {
	names, fits := n.MadeFor(lb)
	m, e := cloud.Mark{ClusterUID: marks.ClusterUID(lb.Tags)}, cloud.Evidence{NameFits: fits}
	if slices.Contains(lb.Tags, n.OwnerTag) {
		m.ClusterUID = n.ref.Cluster.UID
	}
	switch {
	case !fits || m.ClusterUID != "":
	case lb.Name == n.Legacy: // which holds the Service's UID
		e.Published = true
	case lb.Name == n.LB && lb.ID == ev.ID:
		e.Published = true
	case lb.Name == n.LB:
		e.Published, err = shown(ev.Published)
	case lb.ID == ev.ID && !n.hasFormerTag(lb):
		e.Published, err = shown(ev.Status)
	}
	return names, cloud.Judge(m, e, n.ref), err
}

// NotOurs refuses a load balancer of the Service's name: it is another cluster's of the same
// name, or may be.
func (n Names) NotOurs(lb *LoadBalancer) error {
	if n.IsForeign(lb.Tags) {
		return cloud.Errorf(cloud.KindConflict,
			"load balancer %s named %s belongs to the cluster with UID %s, and this cluster's is %s: give the clusters different names (--cluster-name), or remove its tag %q if that cluster is no more",
			lb.ID, lb.Name, marks.ClusterUID(lb.Tags), n.ref.Cluster.UID, marks.Tag(marks.ClusterUID(lb.Tags)))
	}
	return cloud.Errorf(cloud.KindConflict,
		"load balancer %s named %s may be that of another cluster of the name %q: it has no tag %s…, and the Service has neither its ID nor its address. If it is this Service's, as after a creation that was cut off, set the annotation %s: %s; if not, give the clusters different names (--cluster-name)",
		lb.ID, lb.Name, n.Cluster, marks.Prefix, AnnLoadBalancerID, lb.ID)
}

// Ours are those that carry our cluster's tag.
func (n Names) Ours(all []LoadBalancer) []LoadBalancer {
	return slices.DeleteFunc(slices.Clone(all), func(lb LoadBalancer) bool { return !slices.Contains(lb.Tags, n.OwnerTag) })
}

// hasFormerTag reports whether a load balancer has a tag of the Service that is not its own name.
func (n Names) hasFormerTag(lb *LoadBalancer) bool {
	return slices.ContainsFunc(lb.Tags, func(t string) bool { return t != lb.Name && n.IsOwnTag(t) })
}

// FormerTags are those of the Service under other cluster names, or of one of its name in another cluster,
// on a load balancer that was not made for it; none where it has today's.
func (n Names) FormerTags(lb *LoadBalancer) []string {
	if slices.Contains(lb.Tags, n.LB) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(lb.Tags), func(t string) bool { return t == lb.Name || !n.IsOwnTag(t) })
}

// MayShare refuses a load balancer on which a Service of the same name is, in another cluster of the
// same name: the listeners with the Service's tag are that one's, unless our cluster's mark is on one
// of them. nil, and to be asked for the address, where the Service is not there: shown.
func (n Names) MayShare(lb *LoadBalancer, listeners [][]string) error {
	listeners = slices.DeleteFunc(listeners, func(tags []string) bool { return !slices.Contains(tags, n.LB) })
	if len(listeners) == 0 || slices.ContainsFunc(listeners, func(tags []string) bool { return slices.Contains(tags, n.OwnerTag) }) {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict,
		"load balancer %s has listeners with the tag %q and without this cluster's: they may be those of another cluster of the name %q. Use another load balancer or give the clusters different names (--cluster-name); if they are this Service's, set the annotation %s: %s",
		lb.ID, n.LB, n.Cluster, AnnAddress, lb.VIPAddress)
}
