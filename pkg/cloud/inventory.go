package cloud

import (
	"context"
	"time"
)

// Inventory knows what a cluster has in the cloud by the marks there, whether or not the cluster still knows of it.
type Inventory interface {
	// Owned are the objects that carry the cluster's own mark, sorted by kind and ID: all of them, or an error. What a name alone
	// speaks for is not among them, as clusters may share a name; what goes with another of them need not be.
	Owned(ctx context.Context, cluster Cluster) ([]Owned, error)
	// Remove deletes one that Owned has returned, with what goes with it. It reads the object anew first and is KindConflict where
	// its mark is not the same any more, or others have something on it. Nil when it is gone; KindRetryAfter while the cloud works
	// on it, when it is called again.
	Remove(ctx context.Context, cluster Cluster, o Owned) error
}

// MakesNothing is the Inventory of a cloud in which nothing is made for a cluster.
type MakesNothing struct{}

var _ Inventory = MakesNothing{}

// Owned implements Inventory.
func (MakesNothing) Owned(context.Context, Cluster) ([]Owned, error) { return nil, nil }

// Remove implements Inventory.
func (MakesNothing) Remove(_ context.Context, _ Cluster, o Owned) error {
	return Errorf(KindConflict, "%s %s was not made for the cluster", o.Kind, o.ID)
}

// Owned is an object of the cloud that carries a cluster's mark.
type Owned struct {
	// Kind is what the cloud calls such objects, as "load balancer". Kind and ID name one of them.
	Kind, ID string
	// Name is the cloud's, State as well, empty where it has none.
	Name, State string
	// Mark tells the Service, by its name or its UID; neither where the object does not tell it. It has no ClusterUID where the object
	// tells the cluster only by the ID that the configuration says, which need not be that of the API server.
	Mark Mark
	// Users are further Services that it carries marks of, "default/web"; nil for none.
	Users []string
	// Created is when it was made; zero where the cloud does not tell it.
	Created time.Time
	// Addresses are those by which clients reach it; nil for none.
	Addresses []string
}
