package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
)

const (
	// NamePrefix begins the name, and the tag, of every load balancer made for a Service.
	NamePrefix = "kube_service_"
	// maxName is Octavia's limit of names, descriptions and tags.
	maxName = 255
)

// Descriptions are made of these and the cluster's name.
const (
	servicePrefix = "Kubernetes external service "
	fipPrefix     = "Floating IP for " + servicePrefix
	fromCluster   = " from cluster "
)

// Names are the names of all that is made for one Service under one cluster name.
type Names struct {
	// ref is the Service, with that cluster name.
	ref cloud.LoadBalancerRef
	// LB is the load balancer's name, and the tag of what belongs to the Service.
	LB string
	// Cluster is the cluster's name, OwnerTag the tag with its UID.
	Cluster, OwnerTag string
	// Legacy is the name that the in-tree provider gave load balancers; it holds the Service's
	// UID, so that it cannot be another cluster's. Empty where the UID is not known.
	Legacy string
	// Description and FIPDescription are whole descriptions: what carries them is the
	// Service's, or that of a Service of the same name in a cluster of the same name.
	Description, FIPDescription string
}

// NamesOf are the names that a Service's things get today.
func NamesOf(ref cloud.LoadBalancerRef) Names {
	external := servicePrefix + ref.Namespace + "/" + ref.Name + fromCluster + ref.Cluster.Name
	n := Names{
		ref:            ref,
		LB:             Cut(NamePrefix + ref.Cluster.Name + "_" + ref.Namespace + "_" + ref.Name),
		Cluster:        ref.Cluster.Name,
		OwnerTag:       marks.Tag(ref.Cluster.UID),
		Description:    Cut(external),
		FIPDescription: Cut("Floating IP for " + external),
	}
	if ref.UID != "" {
		const most = 32
		legacy := "a" + strings.ReplaceAll(ref.UID, "-", "")
		n.Legacy = legacy[:min(len(legacy), most)]
	}
	return n
}

// Service is the Service that they are of.
func (n Names) Service() string { return n.ref.Namespace + "/" + n.ref.Name }

// in are the names under another cluster name.
func (n Names) in(cluster string) Names {
	ref := n.ref
	ref.Cluster.Name = cluster
	return NamesOf(ref)
}

// Tagged are the names that go with a tag for which IsOwnTag is true.
func (n Names) Tagged(tag string) Names {
	if tag == n.LB {
		return n
	}
	cluster, _, _ := splitName(tag)
	return n.in(cluster)
}

// IsOwnTag reports whether a tag is that of the Service, or of one of its name in another
// cluster: under any cluster name.
func (n Names) IsOwnTag(tag string) bool {
	_, service, ok := splitName(tag)
	return tag == n.LB || ok && service == n.Service()
}

// MadeFor reports whether a load balancer's name is one that the Service makes, under
// whatever cluster name, and returns the names that its things have then.
func (n Names) MadeFor(lb *LoadBalancer) (Names, bool) {
	if lb.Name == n.LB {
		return n, true
	}
	if n.Legacy != "" && lb.Name == n.Legacy {
		if i := slices.IndexFunc(lb.Tags, n.IsOwnTag); i >= 0 && !slices.Contains(lb.Tags, n.LB) {
			return n.Tagged(lb.Tags[i]), true
		}
		return n, true
	}
	cluster, service, ok := MadeOf(lb)
	if !ok || service != n.Service() {
		return n, false
	}
	out := n.in(cluster)
	out.LB = lb.Name // of a long name the description has not all
	return out, true
}

// MadeOf takes apart for which cluster and Service a load balancer was made. A name that was
// cut does not tell all of it; then the description, which is cut behind the Service, does.
func MadeOf(lb *LoadBalancer) (cluster, service string, ok bool) {
	if len(lb.Name) < maxName {
		return splitName(lb.Name)
	}
	text, ok1 := strings.CutPrefix(lb.Description, servicePrefix)
	service, cluster, ok2 := strings.Cut(text, fromCluster)
	return cluster, service, ok1 && ok2 && strings.HasPrefix(lb.Name, NamePrefix) && strings.Count(service, "/") == 1
}

// ServicesOf are the Services that a load balancer of this cluster tells of: the one for which it was made, under any cluster
// name, and others that use it. A name of the in-tree provider tells none; its only tag of a Service does. Empty where none is told.
func ServicesOf(lb *LoadBalancer) (made string, others []string) {
	_, made, _ = MadeOf(lb)
	for _, tag := range lb.Tags {
		if _, service, ok := splitName(tag); ok && tag != lb.Name && service != made && !slices.Contains(others, service) {
			others = append(others, service)
		}
	}
	if len(others) == 1 && !strings.HasPrefix(lb.Name, NamePrefix) {
		return others[0], nil
	}
	return made, others
}

// splitName takes the name of a load balancer, or the tag of a Service, apart. Cluster names
// may have underscores, the others have none.
func splitName(name string) (cluster, service string, ok bool) {
	rest, ok := strings.CutPrefix(name, NamePrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 0 || len(name) >= maxName {
		return "", "", false
	}
	j := strings.LastIndexByte(rest[:i], '_')
	if j < 0 {
		return "", "", false
	}
	return rest[:j], rest[j+1:i] + "/" + rest[i+1:], true
}

func (n Names) listener(i int) string { return numbered("listener", i, n.LB) }
func (n Names) pool(i int) string     { return numbered("pool", i, n.LB) }
func (n Names) monitor(i int) string  { return numbered("monitor", i, n.LB) }

func numbered(kind string, i int, of string) string { return Cut(fmt.Sprintf("%s_%d_%s", kind, i, of)) }

// isPool and isListener report whether name is one that pool or listener makes, or that the
// in-tree provider made.
func (n Names) isPool(name string) bool     { return n.made("pool", name) }
func (n Names) isListener(name string) bool { return n.made("listener", name) }

func (n Names) made(kind, name string) bool {
	digits, _, _ := strings.Cut(strings.TrimPrefix(name, kind+"_"), "_")
	i, err := strconv.Atoi(digits)
	return err == nil && name == numbered(kind, i, n.LB) ||
		n.Legacy != "" && (err == nil && name == numbered(kind, i, n.Legacy) || strings.HasPrefix(name, kind+"_"+n.Legacy+"_"))
}

// IsFIP reports whether the description of a floating IP is that of one which was made for
// the Service, under any cluster name: others keep it when they rename the load balancer.
// That it leads to the Service's own load balancer must be known beside.
func (n Names) IsFIP(description string) bool {
	return strings.HasPrefix(description, fipPrefix+n.Service()+fromCluster)
}

// IsFIPOf reports whether a floating IP that leads to a load balancer which is the Service's was
// made for that: for the Service, or for the one that the load balancer was made for, as its name
// or, where another controller has renamed it, its description tells. A floating IP of another
// Service, which was kept when that went and then wanted by this one, is not.
func (n Names) IsFIPOf(lb *LoadBalancer, description string) bool {
	_, service, ok := MadeOf(lb)
	return n.IsFIP(description) || ok && strings.HasPrefix(description, fipPrefix+service+fromCluster) ||
		strings.HasPrefix(lb.Description, servicePrefix) && description == Cut("Floating IP for "+lb.Description)
}

// Cut is as much of a name as fits.
func Cut(s string) string { return s[:min(len(s), maxName)] }

// IsForeign reports whether tags name another cluster than ours.
func (n Names) IsForeign(tags []string) bool {
	uid := marks.ClusterUID(tags)
	return uid != "" && marks.Tag(uid) != n.OwnerTag
}

// OtherServices are the tags of other Services than ours.
func (n Names) OtherServices(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool {
		return t == n.LB || !strings.HasPrefix(t, NamePrefix)
	})
}

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
	case lb.ID == ev.ID && len(n.FormerTags(lb)) == 0:
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

// FormerTags are a load balancer's tags of the Service, under any cluster name, or of one of its name in
// another cluster, but for its own name.
func (n Names) FormerTags(lb *LoadBalancer) []string {
	return slices.DeleteFunc(slices.Clone(lb.Tags), func(t string) bool { return t == lb.Name || !n.IsOwnTag(t) })
}

// MayShare refuses a load balancer on which a Service of the same name is, in another cluster of the
// same name: the listeners with the Service's tag are that one's, unless our cluster's mark is on one
// of them. nil, and to be asked for the address, where the Service is not there: shown.
func (n Names) MayShare(lb *LoadBalancer, listeners []*Listener) error {
	tagged := slices.DeleteFunc(slices.Clone(listeners), func(l *Listener) bool { return !slices.Contains(l.Tags, n.LB) })
	if len(tagged) == 0 || slices.ContainsFunc(tagged, func(l *Listener) bool { return slices.Contains(l.Tags, n.OwnerTag) }) {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict,
		"load balancer %s has listeners with the tag %q and without this cluster's: they may be those of another cluster of the name %q. Use another load balancer or give the clusters different names (--cluster-name); if they are this Service's, set the annotation %s: %s",
		lb.ID, n.LB, n.Cluster, AnnAddress, lb.VIPAddress)
}
