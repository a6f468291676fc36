package openstack

import (
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// witness remembers where the servers of the cluster's Nodes were seen. Nova says "not
// found" of a server of another project or region in the very words that it has for one that
// is gone, so credentials or a region that are not the cluster's would have every Node
// deleted. Therefore a server counts as absent only in a place that has shown a server of
// the cluster to this process before.
//
// At start the node controller asks about every Node, so that this takes no longer than its
// first round. Only where not one server of the cluster is left, Nodes of a time before the
// process began stay until there is one again.
type witness struct {
	mu sync.Mutex
	// proven are the places in which a Node's provider ID led to a server.
	proven map[string]bool
	// named holds the places of servers found by name, by their IDs, until one is proven: a
	// name is weaker evidence, other projects may have servers of the same names.
	named map[string]string
}

// place is where sc's answers about servers come from: one project at one endpoint.
func place(sc *gophercloud.ServiceClient) string {
	project := projectOf(sc)
	if project == "" {
		project = "unknown"
	}
	return "project " + project + " at " + withoutQuery(sc.Endpoint)
}

// projectOf is the ID of the project that sc's token is for, "" when that is not known.
func projectOf(sc *gophercloud.ServiceClient) string {
	if r, ok := sc.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	}); ok {
		if p, err := r.ExtractProject(); err == nil && p != nil {
			return p.ID
		}
	}
	return ""
}

// saw records that t led to the server of that ID.
func (w *witness) saw(place string, t target, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.proven[place]:
	case t.id != "":
		w.prove(place)
	default:
		if w.named == nil {
			w.named = map[string]string{}
		}
		w.named[id] = place
	}
}

// check returns err, which says that t is not in place, where that can be believed, and else
// an error that is not KindNotFound.
func (w *witness) check(place string, t target, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.named[t.id] == place { // this very server was there before
		w.prove(place)
	}
	if w.proven[place] {
		return err
	}
	if t.id == "" {
		for _, p := range w.named {
			if p == place {
				return err
			}
		}
	}
	return cloud.Errorf(cloud.KindInvalid, "server %s is not in %s, but no server of this cluster was seen there yet, "+
		"so the Node is kept; check that [Global] has the cluster's own project and region", t, place)
}

// prove is called with mu held.
func (w *witness) prove(place string) {
	if w.proven == nil {
		w.proven = map[string]bool{}
	}
	w.proven[place] = true
	for id, p := range w.named {
		if p == place {
			delete(w.named, id)
		}
	}
}
