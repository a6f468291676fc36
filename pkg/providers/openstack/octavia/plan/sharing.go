package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/marks"
)

// A Service that names, by the annotation load-balancer-id, a load balancer that was not made
// for it shares it as it is: its addresses are the business of the Service that it was made
// for, or of the user. A sharer adds and removes none: by a floating IP of its own it would
// publish the ports of everybody on an internal load balancer to the internet.
//
// So it must have the exposure that the load balancer has. That is decided before anything is
// made for it. When it changes later the sharer's listeners and members are kept up to date
// all the same, and its error or warning says what is wrong.

// Exposure is how a Service is reached.
type Exposure struct {
	// FloatingIP is the address by which it is, "" for none.
	FloatingIP string
	Warning    string
	// Refused is the answer when all else that the Service wants is done.
	Refused error
}

// SharedExposure is how a sharer is reached on a load balancer with these floating IPs. An error keeps a
// Service off that has not joined yet.
func (d *Desired) SharedExposure(lb *LoadBalancer, attached []string) (Exposure, error) {
	joined := slices.Contains(lb.Tags, d.Names.LB)
	published := d.Published()
	reached := func(a string) bool { return slices.Contains(published, a) }
	var refusal error
	switch {
	case d.Internal && len(attached) > 0:
		refusal = cloud.Errorf(cloud.KindConflict, "load balancer %s is reached from outside by the floating IP %s, and the Service is to be internal: use an internal load balancer, or remove the annotation %s to get one of its own",
			lb.ID, attached[0], AnnLoadBalancerID)
		if joined && !slices.ContainsFunc(attached, reached) { // otherwise it keeps the address by which clients reach it
			return Exposure{Warning: refusal.Error()}, nil
		}
	case !d.HasFIP() || !isIPv4(lb.VIPAddress) && !isIPv4(lb.SecondAddress()):
		return Exposure{}, nil
	case len(attached) == 0:
		refusal = cloud.Errorf(cloud.KindConflict, "load balancer %s has no floating IP, and only the Service that it was made for may give it one, as it concerns all who share it: let that Service be external, attach a floating IP to port %s, or let this Service be internal (annotation %s)",
			lb.ID, lb.VIPPortID, AnnInternal)
	}
	switch {
	case refusal != nil && joined:
		return Exposure{Refused: refusal}, nil
	case refusal != nil:
		return Exposure{}, refusal
	}
	wanted := d.FloatingIP.Address
	out := Exposure{FloatingIP: attached[0]}
	for _, a := range attached {
		if wanted.IsValid() && a == wanted.String() {
			return Exposure{FloatingIP: a}, nil
		}
		if reached(a) {
			out.FloatingIP = a
		}
	}
	if wanted.IsValid() {
		out.Warning = fmt.Sprintf("spec.loadBalancerIP %s has no effect: load balancer %s was not made for this Service and has the floating IP %s", wanted, lb.ID, out.FloatingIP)
	}
	return out, nil
}

// MayExpose refuses the owner of an internal load balancer a floating IP while others share
// it: whoever came to it when it was internal may rely on that. One that it had before, and
// lost, it gets again, if the Service's status shows it: what annotations say is its user's word.
func (d *Desired) MayExpose(lb *LoadBalancer) error {
	sharers := d.Names.OtherServices(lb.Tags)
	if len(sharers) == 0 || slices.ContainsFunc(d.Spec.CurrentIngress, func(in corev1.LoadBalancerIngress) bool {
		return isIPv4(in.IP) && in.IP != lb.VIPAddress && in.IP != lb.SecondAddress()
	}) {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict, "load balancer %s gets no floating IP while it is shared: it would publish %s as well; give those a load balancer of their own first, or let this Service be internal (annotation %s)",
		lb.ID, strings.Join(sharers, ", "), AnnInternal)
}

// Claim is the load balancer's tags with those that the Service marks it with: as used by it and, of its
// owner, as the cluster's. An error keeps one more off that is shared by too many.
func (d *Desired) Claim(lb *LoadBalancer, role Role) ([]string, error) {
	tags := d.Names.Mark(lb.Tags, role)
	if others := d.Names.OtherServices(lb.Tags); role == Tenant && len(tags) > len(lb.Tags) && len(others) >= d.Config.MaxSharedLB {
		return nil, cloud.Errorf(cloud.KindConflict, "load balancer %s is shared by %d Services already, and [LoadBalancer] max-shared-lb is %d: use another one or raise the limit",
			lb.ID, len(others), d.Config.MaxSharedLB)
	}
	return tags, nil
}

// Mark adds the tags that say whose a load balancer is.
func (n Names) Mark(tags []string, role Role) []string {
	if tags = marks.Add(tags, n.LB); role == Owner {
		tags = marks.Add(tags, n.OwnerTag)
	}
	return tags
}

// Knows reports whether the Service may change the members of a load balancer: one that has its tag. A
// frozen one has it beyond doubt as its owner or, as a tenant, by its tag and our cluster's mark or the
// ID in its annotation.
func (svc *Service) Knows(lb *LoadBalancer, names Names, role Role) bool {
	tagged := slices.Contains(lb.Tags, names.LB)
	if !svc.Spec.Frozen {
		return tagged
	}
	return role == Owner || tagged && (slices.Contains(lb.Tags, names.OwnerTag) || svc.LoadBalancerID == lb.ID)
}

// IsNewborn reports whether the creation of a load balancer of ours may have been cut off before it
// served anybody: its ID is published when nothing is left to be done.
func (d *Desired) IsNewborn(lb *LoadBalancer) bool {
	return lb.Name == d.Names.LB && slices.Contains(lb.Tags, d.Names.OwnerTag) && d.LoadBalancerID == ""
}
