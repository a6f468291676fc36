package cloud

// Mark is what an object in the cloud tells of its owner: in tags, a description, a name that only we
// give. What it does not tell is empty.
type Mark struct {
	// ClusterUID is Cluster.UID, ClusterID is Cluster.ID.
	ClusterUID, ClusterID string
	// Service is the namespace and name, "default/web", ServiceUID its UID.
	Service, ServiceUID string
}

// Mark is that of what is made for the Service, with all that is known of it.
func (r LoadBalancerRef) Mark() Mark {
	return Mark{ClusterUID: r.Cluster.UID, ClusterID: r.Cluster.ID, Service: r.Namespace + "/" + r.Name, ServiceUID: r.UID}
}

// Evidence is what else speaks for a Service's ownership.
type Evidence struct {
	// NameFits: the object has the name that is given to the Service's. Anybody may choose a name.
	NameFits bool
	// Published: the Service shows the object's ID or address. Whoever writes the Service may write those.
	Published bool
}

// Ownership is whose an object is.
type Ownership int

// The answers of Judge.
const (
	// Foreign objects are never changed or deleted.
	Foreign Ownership = iota
	// Ours is made for the Service by this cluster.
	Ours
	// Adopt is made for the Service by whoever served it before: it is marked before anything else.
	Adopt
)

// Judge is the one rule of ownership. A mark that contradicts is final. A mark of the cluster and of the
// Service, or of the cluster with a name that fits, proves ownership. An object without a mark of any
// cluster may be adopted if both its name and what the Service shows speak for it: neither alone does.
func Judge(m Mark, e Evidence, ref LoadBalancerRef) Ownership {
	contradicts := func(says, is string) bool { return says != "" && says != is }
	switch {
	case contradicts(m.ClusterUID, ref.Cluster.UID), contradicts(m.ClusterID, ref.Cluster.ID),
		contradicts(m.Service, ref.Namespace+"/"+ref.Name), contradicts(m.ServiceUID, ref.UID):
		return Foreign
	case m.ClusterUID != "" || m.ClusterID != "":
		if m.Service != "" || m.ServiceUID != "" || e.NameFits {
			return Ours
		}
	case e.NameFits && e.Published:
		return Adopt
	}
	return Foreign
}
