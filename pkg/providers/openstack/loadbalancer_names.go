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

// lbNames are the names of all that is made for one Service.
type lbNames struct {
	// lb is the load balancer's name, and the tag of what belongs to the Service.
	lb string
	// owner is the tag that names the cluster.
	owner string
	// lbDescription and fipDescription are whole descriptions: what carries them is the
	// Service's, or that of a Service of the same name in a cluster of the same name.
	lbDescription, fipDescription string
}

func namesFor(ref cloud.LoadBalancerRef) lbNames {
	external := fmt.Sprintf("Kubernetes external service %s/%s from cluster %s", ref.Namespace, ref.Name, ref.Cluster.Name)
	return lbNames{
		lb:             cut(lbNamePrefix + ref.Cluster.Name + "_" + ref.Namespace + "_" + ref.Name),
		owner:          ownerTagPrefix + ref.Cluster.UID,
		lbDescription:  cut(external),
		fipDescription: cut("Floating IP for " + external),
	}
}

func (n lbNames) listener(i int) string { return cut(fmt.Sprintf("listener_%d_%s", i, n.lb)) }
func (n lbNames) pool(i int) string     { return cut(fmt.Sprintf("pool_%d_%s", i, n.lb)) }
func (n lbNames) monitor(i int) string  { return cut(fmt.Sprintf("monitor_%d_%s", i, n.lb)) }

// isPool and isListener report whether name is one that pool or listener makes.
func (n lbNames) isPool(name string) bool     { return numbered(name, "pool_", n.pool) }
func (n lbNames) isListener(name string) bool { return numbered(name, "listener_", n.listener) }

func numbered(name, prefix string, named func(int) string) bool {
	rest, _ := strings.CutPrefix(name, prefix)
	digits, _, _ := strings.Cut(rest, "_")
	i, err := strconv.Atoi(digits)
	return err == nil && name == named(i)
}

// isFIPDescription reports whether a floating IP was made for a Service of the cluster's name.
func (n lbNames) isFIPDescription(ref cloud.LoadBalancerRef, description string) bool {
	if description == n.fipDescription {
		return true
	}
	service, ok := strings.CutPrefix(description, "Floating IP for Kubernetes external service ")
	service, cluster, ok2 := strings.Cut(service, " from cluster ")
	return ok && ok2 && cluster == ref.Cluster.Name && strings.Count(service, "/") == 1
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
