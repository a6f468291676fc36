package routes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/supervisor"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

const (
	// looks is how often Apply looks whether routes are realized, and pause the time before each look.
	looks, pause = 20, 500 * time.Millisecond
	// again is after how long a route is looked at again that NSX still works on.
	again = 5 * time.Second
)

// Routes are the pod routes in the guest cluster's namespace. It may be used concurrently.
type Routes struct {
	c    *supervisor.Client
	kind supervisor.Resource
	// after is time.After.
	after func(time.Duration) <-chan time.Time
}

var _ cloud.Routes = (*Routes)(nil)

// New makes the routes of a guest cluster.
func New(c *supervisor.Client, cfg *config.Cluster) *Routes {
	r := &Routes{c: c, kind: Resource(cfg), after: time.After}
	return r
}

// Traits are those of the routes: NSX has one route to a destination of each router.
func Traits() cloud.RouteTraits { return cloud.RouteTraits{OneHop: true} }

// entry is an object with what is known of it.
type entry struct {
	obj *unstructured.Unstructured
	object
	ours bool
}

// List implements cloud.Routes, with one list of the namespace. Objects that are being deleted are left out.
func (r *Routes) List(ctx context.Context, cluster cloud.Cluster) ([]cloud.Route, error) {
	all, err := r.read(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var out []cloud.Route
	for _, e := range all {
		if e.DeletionTimestamp != nil {
			continue
		}
		ready, _ := e.ready()
		for _, route := range e.routes() {
			if route.Ours, route.Partial = e.ours, !ready; e.ours || cluster.HasPods(route.Destination) {
				out = append(out, route)
			}
		}
	}
	return out, nil
}

// Apply implements cloud.Routes: one list, one request for each route that comes or goes, and a list each half second until NSX has realized
// those that came, at most twenty: what it has not by then is KindRetryAfter. What goes, goes first, as its name may be needed.
func (r *Routes) Apply(ctx context.Context, cluster cloud.Cluster, add, remove []cloud.Route) []error {
	out := make([]error, len(add)+len(remove))
	all, err := r.read(ctx, cluster)
	if err != nil {
		for n := range out {
			out[n] = err
		}
		return out
	}
	for n, route := range remove {
		out[len(add)+n] = r.remove(ctx, all, route)
	}
	unready := map[string]int{} // by the object's name, the place in out
	for n, route := range add {
		var e *entry
		if e, out[n] = r.add(ctx, cluster, all, route); out[n] != nil {
			continue
		}
		if ready, _ := e.ready(); !ready {
			unready[e.Name] = n
		}
	}
	r.await(ctx, cluster, unready, out)
	return out
}

// await waits until the objects are ready, and writes into out which are not.
func (r *Routes) await(ctx context.Context, cluster cloud.Cluster, unready map[string]int, out []error) {
	for range looks {
		if len(unready) == 0 {
			return
		}
		select {
		case <-r.after(pause):
		case <-ctx.Done():
		}
		all, err := r.read(ctx, cluster)
		for name, n := range unready {
			if out[n] = err; err != nil {
				continue
			}
			why := "is gone again"
			if e := all[name]; e != nil {
				ready, reason := e.ready()
				if ready {
					delete(unready, name)
					continue
				}
				why = "is not realized yet: " + text.Clip(reason, 300)
			}
			out[n] = r.waiting(name, why)
		}
		if err != nil {
			return
		}
	}
}

// read reads all objects of the namespace, by their names.
func (r *Routes) read(ctx context.Context, cluster cloud.Cluster) (map[string]*entry, error) {
	list, err := r.c.List(ctx, r.kind, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]*entry{}
	for n := range list {
		e := &entry{obj: &list[n]}
		if err := supervisor.Decode(e.obj, &e.object); err != nil {
			return nil, err
		}
		_, single := e.single()
		e.ours = single && r.c.ClusterOf(e.OwnerReferences) == cluster.ID && e.Labels[labelCluster] == cluster.Name
		out[e.Name] = e
	}
	return out, nil
}

// remove deletes the object of a route, and takes it out of all.
func (r *Routes) remove(ctx context.Context, all map[string]*entry, route cloud.Route) error {
	for name, e := range all {
		if e.ours && e.leads(route) && e.DeletionTimestamp == nil {
			if err := cloud.IgnoreNotFound(r.c.Delete(ctx, r.kind, e.obj)); err != nil {
				return err
			}
			delete(all, name)
			return nil
		}
	}
	for _, e := range all {
		if e.leads(route) && e.DeletionTimestamp == nil {
			return r.conflict(e, route)
		}
	}
	return nil
}

// add is the object of a route, which is made where there is none, in place of one of ours with the same destination and another hop.
func (r *Routes) add(ctx context.Context, cluster cloud.Cluster, all map[string]*entry, route cloud.Route) (*entry, error) {
	if err := route.CheckHop(); err != nil {
		return nil, err
	}
	if route.Node.NodeName == "" {
		return nil, cloud.Errorf(cloud.KindInvalid, "route to %s: its Node, after which its object is named, is not known", route.Destination)
	}
	for _, e := range all {
		if e.DeletionTimestamp == nil && e.leads(route) {
			return e, nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e := all[name]
		if e.DeletionTimestamp != nil {
			continue
		}
		if old, single := e.single(); single && old.Destination == route.Destination.Masked() {
			if !e.ours {
				return nil, r.conflict(e, route)
			}
			if err := r.remove(ctx, all, old); err != nil {
				return nil, err
			}
			break
		}
	}
	name := nameOf(route)
	if e := all[name]; e != nil && e.DeletionTimestamp == nil {
		sum := sha256.Sum256([]byte(route.Destination.Masked().String()))
		name += "-" + hex.EncodeToString(sum[:4])
	}
	if e := all[name]; e != nil && e.DeletionTimestamp != nil {
		return nil, r.waiting(name, "is being deleted, and has to be gone before there is another one")
	}
	made, err := r.c.Create(ctx, r.kind, r.object(cluster, name, route))
	if err != nil {
		return nil, err
	}
	e := &entry{obj: made, ours: true}
	all[name] = e
	return e, supervisor.Decode(made, &e.object)
}

// nameOf is the name of a route's object.
func nameOf(route cloud.Route) string {
	if route.NextHop.Is6() {
		return route.Node.NodeName + "-ipv6"
	}
	return route.Node.NodeName
}

// object is a route's.
func (r *Routes) object(cluster cloud.Cluster, name string, route cloud.Route) *unstructured.Unstructured {
	family := "ipv4"
	if route.NextHop.Is6() {
		family = "ipv6"
	}
	destination, hop := route.Destination.Masked().String(), route.NextHop.String()
	spec := map[string]any{"network": destination, "nextHops": []any{map[string]any{"ipAddress": hop}}}
	if r.kind == routeSets {
		label := strings.ReplaceAll(name+"-"+destination+"-"+cluster.Name, "/", "-")
		spec = map[string]any{"routes": []any{map[string]any{"name": label, "destination": destination, "target": hop}}}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetName(name)
	obj.SetLabels(map[string]string{labelCluster: cluster.Name, labelNode: route.Node.NodeName, labelFamily: family})
	obj.SetOwnerReferences([]metav1.OwnerReference{r.c.Owner()})
	return obj
}

func (r *Routes) conflict(e *entry, route cloud.Route) error {
	return cloud.Errorf(cloud.KindConflict, "%s, which leads %s elsewhere or is not this cluster's, is somebody else's; remove it in the Supervisor, or give the Node another pod CIDR",
		r.c.Name(r.kind, e.Name), route.Destination)
}

func (r *Routes) waiting(name, how string) error {
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: again, Err: fmt.Errorf("%s %s", r.c.Name(r.kind, name), how)}
}
