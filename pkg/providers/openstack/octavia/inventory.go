package octavia

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
)

// ownedKind is the only kind of Owned: floating IPs and security groups carry no cluster's mark of their own. A floating IP goes
// with the load balancer that it leads to.
const ownedKind = "load balancer"

// Owned implements cloud.Inventory.
func (l *LoadBalancers) Owned(ctx context.Context, cluster cloud.Cluster) ([]cloud.Owned, error) {
	r, err := l.operation(ctx, cloud.LoadBalancerRef{Cluster: cluster})
	if err != nil {
		return nil, err
	}
	all, err := r.octavia.Tagged(ctx, r.names.OwnerTag)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(lb plan.LoadBalancer) bool {
		return !slices.Contains(lb.Tags, r.names.OwnerTag) || r.octavia.IsElsewhere(&lb) || lb.Status == "DELETED"
	})
	attached, err := r.allAttachedFIPs(ctx, all)
	if err != nil {
		return nil, err
	}
	var out []cloud.Owned
	for i := range all {
		o := r.owned(&all[i])
		o.Addresses = append(attached[all[i].VIPPortID], o.Addresses...)
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b cloud.Owned) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// allAttachedFIPs are the addresses of the floating IPs of load balancers, by the port of the VIP.
func (r *reconciliation) allAttachedFIPs(ctx context.Context, all []plan.LoadBalancer) (map[string][]string, error) {
	var ports []string
	for i := range all {
		if port := all[i].VIPPortID; port != "" { // Neutron takes an empty filter for none
			ports = append(ports, port)
		}
	}
	fips, err := r.floating.OfPorts(ctx, ports)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, f := range fips {
		out[f.PortID] = append(out[f.PortID], f.Address)
	}
	return out, nil
}

func (r *reconciliation) owned(lb *plan.LoadBalancer) cloud.Owned {
	made, users := plan.ServicesOf(lb)
	o := cloud.Owned{Kind: ownedKind, ID: lb.ID, Name: lb.Name, State: lb.Status, Mark: cloud.Mark{ClusterUID: r.ref.Cluster.UID, Service: made}, Users: users}
	for _, a := range []string{lb.VIPAddress, lb.SecondAddress()} {
		if a != "" {
			o.Addresses = append(o.Addresses, a)
		}
	}
	if t, err := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(lb.CreatedAt, "Z")); err == nil {
		o.Created = t
	}
	return o
}

// Remove implements cloud.Inventory.
func (l *LoadBalancers) Remove(ctx context.Context, cluster cloud.Cluster, o cloud.Owned) error {
	namespace, name, ok := strings.Cut(o.Mark.Service, "/")
	if o.Kind != ownedKind || !ok {
		return cloud.Errorf(cloud.KindInvalid, "%s %s does not tell which Service it was made for", o.Kind, o.ID)
	}
	r, err := l.operation(ctx, cloud.LoadBalancerRef{Cluster: cluster, Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	lb, err := r.octavia.GetAlone(ctx, o.ID)
	if err != nil {
		return cloud.IgnoreNotFound(err)
	}
	now := r.owned(lb)
	if !slices.Contains(lb.Tags, r.names.OwnerTag) || r.octavia.IsElsewhere(lb) || now.Mark != o.Mark || now.Name != o.Name {
		return cloud.Errorf(cloud.KindConflict, "load balancer %s is not what it was: it is named %q now, with the tags %q", o.ID, lb.Name, lb.Tags)
	}
	names, fits := r.names.MadeFor(lb)
	if !fits { // the in-tree provider named it
		if i := slices.IndexFunc(lb.Tags, names.IsOwnTag); i >= 0 {
			names = names.Tagged(lb.Tags[i])
		}
		names.Legacy = lb.Name
	}
	one := r.without(r.ref, &holding{lb, names, plan.Owner})
	one.work.id, one.last = lb.ID, true
	defer r.trees.Forget(lb.ID)
	switch shared, err := one.isShared(ctx); {
	case err != nil:
		return err
	case shared:
		return cloud.Errorf(cloud.KindConflict, "load balancer %s has listeners or tags of others: it stays until they are gone", lb.ID)
	}
	err = one.release(ctx)
	if cloud.IsNotFound(err) { // something of it: the next attempt sees whether all is gone
		return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: l.waits.retry, Err: err}
	}
	return err
}
