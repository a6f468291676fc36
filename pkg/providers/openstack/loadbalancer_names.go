package openstack

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

const (
	// lbNamePrefix begins the name, and the tag, of every load balancer made for a Service.
	lbNamePrefix = "kube_service_"
	// ownerTagPrefix begins the tag that says which cluster a load balancer or listener
	// belongs to, by the UID of its namespace kube-system: cluster names are not unique.
	ownerTagPrefix = "isthmus-cluster="
	// maxName is Octavia's limit of names, descriptions and tags.
	maxName = 255
)

// Descriptions are made of these and the cluster's name.
const (
	servicePrefix = "Kubernetes external service "
	fipPrefix     = "Floating IP for " + servicePrefix
	fromCluster   = " from cluster "
)

// lbNames are the names of all that is made for one Service under one cluster name.
type lbNames struct {
	// ref is the Service, with that cluster name.
	ref cloud.LoadBalancerRef
	// lb is the load balancer's name, and the tag of what belongs to the Service.
	lb string
	// cluster is the cluster's name, owner the tag with its UID.
	cluster, owner string
	// legacy is the name that the in-tree provider gave load balancers; it holds the Service's
	// UID, so that it cannot be another cluster's. Empty where the UID is not known.
	legacy string
	// lbDescription and fipDescription are whole descriptions: what carries them is the
	// Service's, or that of a Service of the same name in a cluster of the same name.
	lbDescription, fipDescription string
}

func namesFor(ref cloud.LoadBalancerRef) lbNames {
	external := servicePrefix + ref.Namespace + "/" + ref.Name + fromCluster + ref.Cluster.Name
	n := lbNames{
		ref:            ref,
		lb:             cut(lbNamePrefix + ref.Cluster.Name + "_" + ref.Namespace + "_" + ref.Name),
		cluster:        ref.Cluster.Name,
		owner:          ownerTagPrefix + ref.Cluster.UID,
		lbDescription:  cut(external),
		fipDescription: cut("Floating IP for " + external),
	}
	if ref.UID != "" {
		const most = 32
		legacy := "a" + strings.ReplaceAll(ref.UID, "-", "")
		n.legacy = legacy[:min(len(legacy), most)]
	}
	return n
}

// service is the Service that they are of.
func (n lbNames) service() string { return n.ref.Namespace + "/" + n.ref.Name }

// in are the names under another cluster name.
func (n lbNames) in(cluster string) lbNames {
	ref := n.ref
	ref.Cluster.Name = cluster
	return namesFor(ref)
}

// tagged are the names that go with a tag for which isOwnTag is true.
func (n lbNames) tagged(tag string) lbNames {
	if tag == n.lb {
		return n
	}
	cluster, _, _ := splitLBName(tag)
	return n.in(cluster)
}

// isOwnTag reports whether a tag is that of the Service, or of one of its name in another
// cluster: under any cluster name.
func (n lbNames) isOwnTag(tag string) bool {
	_, service, ok := splitLBName(tag)
	return tag == n.lb || ok && service == n.service()
}

// madeFor reports whether a load balancer's name is one that the Service makes, under
// whatever cluster name, and returns the names that its things have then.
func (n lbNames) madeFor(lb *octaviaLB) (lbNames, bool) {
	if lb.Name == n.lb {
		return n, true
	}
	if n.legacy != "" && lb.Name == n.legacy {
		if i := slices.IndexFunc(lb.Tags, n.isOwnTag); i >= 0 && !slices.Contains(lb.Tags, n.lb) {
			return n.tagged(lb.Tags[i]), true
		}
		return n, true
	}
	cluster, service, ok := madeOf(lb)
	if !ok || service != n.service() {
		return n, false
	}
	out := n.in(cluster)
	out.lb = lb.Name // of a long name the description has not all
	return out, true
}

func (n lbNames) listener(i int) string { return cut(fmt.Sprintf("listener_%d_%s", i, n.lb)) }
func (n lbNames) pool(i int) string     { return cut(fmt.Sprintf("pool_%d_%s", i, n.lb)) }
func (n lbNames) monitor(i int) string  { return cut(fmt.Sprintf("monitor_%d_%s", i, n.lb)) }

// isPool and isListener report whether name is one that pool or listener makes, or that the
// in-tree provider made.
func (n lbNames) isPool(name string) bool {
	return numbered(name, "pool_", n.pool) || n.isLegacy(name, "pool_")
}

func (n lbNames) isListener(name string) bool {
	return numbered(name, "listener_", n.listener) || n.isLegacy(name, "listener_")
}

func (n lbNames) isLegacy(name, prefix string) bool {
	return n.legacy != "" && (numbered(name, prefix, func(i int) string { return cut(fmt.Sprintf("%s%d_%s", prefix, i, n.legacy)) }) ||
		strings.HasPrefix(name, prefix+n.legacy+"_"))
}

func numbered(name, prefix string, named func(int) string) bool {
	rest, _ := strings.CutPrefix(name, prefix)
	digits, _, _ := strings.Cut(rest, "_")
	i, err := strconv.Atoi(digits)
	return err == nil && name == named(i)
}

// isFIP reports whether the description of a floating IP is that of one which was made for
// the Service, under any cluster name: others keep it when they rename the load balancer.
// That it leads to the Service's own load balancer must be known beside.
func (n lbNames) isFIP(description string) bool {
	return strings.HasPrefix(description, fipPrefix+n.service()+fromCluster)
}

// isFIPOf reports whether a floating IP that leads to a load balancer which is the Service's was
// made for that: for the Service, or for the one that the load balancer was made for, as its name
// or, where another controller has renamed it, its description tells. A floating IP of another
// Service, which was kept when that went and then wanted by this one, is not.
func (n lbNames) isFIPOf(lb *octaviaLB, description string) bool {
	_, service, ok := madeOf(lb)
	return n.isFIP(description) || ok && strings.HasPrefix(description, fipPrefix+service+fromCluster) ||
		strings.HasPrefix(lb.Description, servicePrefix) && description == cut("Floating IP for "+lb.Description)
}

func cut(s string) string { return s[:min(len(s), maxName)] }

// ownerOf returns the cluster UID that tags name, "" for none.
func ownerOf(tags []string) string {
	for _, t := range tags {
		if uid, ok := strings.CutPrefix(t, ownerTagPrefix); ok {
			return uid
		}
	}
	return ""
}

// isForeign reports whether tags name another cluster than ours.
func (n lbNames) isForeign(tags []string) bool {
	uid := ownerOf(tags)
	return uid != "" && ownerTagPrefix+uid != n.owner
}

// otherServices are the tags of other Services than ours.
func (n lbNames) otherServices(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool {
		return t == n.lb || !strings.HasPrefix(t, lbNamePrefix)
	})
}

// withTags returns tags and those of more that it lacks.
func withTags(tags []string, more ...string) []string {
	out := slices.Clone(tags)
	for _, t := range more {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
