package octavia

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/wire"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/providerid"
)

// maxPopulated bounds what is sent in one call, by members and source ranges.
const maxPopulated = 20_000

// create makes the load balancer where there is none, with all its children in the same call unless they
// are very many or the provider takes them one by one only. After a crash at any point locate comes upon
// the load balancer by its name.
//
// Octavia (Zed at least) makes the VIP's port before it looks at the children, and forgets it
// when it refuses one: each further attempt would take another address of the subnet. So
// after a refusal the load balancer is made alone, and its children are refused by themselves.
func (r *reconciliation) create(ctx context.Context) error {
	if r.lb != nil {
		return nil
	}
	svc := r.service
	if err := r.mayCreate(ctx); err != nil {
		return err
	}
	opts, err := r.createOpts(ctx)
	if err != nil {
		return err
	}
	second, err := r.planSecond(ctx, &opts)
	if err != nil {
		return err
	}
	names := r.names
	if r.desired, err = svc.New(svc.Config.Provider, names, second, r.oneVIP); err != nil {
		return err
	}
	if err := r.mayHaveLost(names.LB); err != nil {
		return err
	}
	populated := !svc.Config.SerialAPICalls && r.desired.Tree.Size() <= maxPopulated
	if populated {
		if err := r.populate(ctx, &opts); err != nil {
			return err
		}
	}
	answer, lost, err := r.octavia.Create(ctx, opts)
	if populated && isRefusal(err) {
		klog.FromContext(ctx).V(2).Info("Octavia refused a load balancer with its children, making it without them", "name", names.LB, "reason", err.Error())
		populated, opts.Listeners = false, nil
		answer, lost, err = r.octavia.Create(ctx, opts)
	}
	if lost {
		until := r.now().Add(lostCreation)
		r.creations.put(names.LB, until, r.now(), until)
	}
	if err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Created load balancer", "loadBalancer", answer.ID, "name", names.LB, "populated", populated)
	r.created, r.lb = true, &answer.LoadBalancer
	r.work = work{id: answer.ID, holding: holding{names: names, role: plan.Owner}}
	r.known = known{phase: accepted, readAt: r.now(), tree: &plan.Tree{}}
	if populated {
		r.known.tree = answer.Tree(r.desired.Tree)
	}
	err = r.exposeEarly(ctx)
	r.remember() // an operation that comes after a long creation goes on from here
	if err != nil {
		return err
	}
	if err := r.waitMade(ctx); err != nil {
		return &cloud.Error{Kind: cloud.KindOf(err), Op: "create load balancer " + names.LB, RetryAfter: cloud.RetryAfter(err), Progress: true, Err: err}
	}
	if len(svc.Published()) > 0 && svc.Spec.Verify {
		r.repaired = append(r.repaired, "the load balancer was gone and was made anew")
	}
	return nil
}

// populate has the load balancer made with its children.
func (r *reconciliation) populate(ctx context.Context, opts *loadbalancers.CreateOpts) error {
	for _, l := range r.desired.Tree.Listeners {
		if err := r.setMemberSubnets(ctx, opts.VipSubnetID, l.Pool.Members); err != nil {
			return err
		}
	}
	// Provider ovn forgets monitors that are made this way, and can never delete them again.
	opts.Listeners = wire.Populated(r.desired.Tree, r.service.Config.Provider != config.ProviderOVN)
	return nil
}

// waitMade waits briefly until a new load balancer is there, and fills in what became of its
// children.
func (r *reconciliation) waitMade(ctx context.Context) error {
	lb, err := r.waitActive(ctx, r.lb.ID, r.waits.brief)
	if err != nil {
		return err
	}
	status, err := r.octavia.Status(ctx, lb.ID)
	if err != nil {
		return err
	}
	r.lb, r.known.phase = lb, made
	if !status.Proves(r.known.tree) { // a provider that answers otherwise than Octavia
		r.known.tree, err = r.octavia.Tree(ctx, lb.ID)
		r.readTree = true
	}
	return err
}

// mayCreate refuses what could not be made, or not be served, before anything is.
func (r *reconciliation) mayCreate(ctx context.Context) error {
	svc := r.service
	served := len(svc.Published()) > 0
	if svc.LoadBalancerID != "" && !served { // the user has set the annotation, and has set it wrong
		return cloud.Errorf(cloud.KindInvalid, "annotation %s: there is no load balancer %s in this project and region; correct or remove the annotation",
			plan.AnnLoadBalancerID, svc.LoadBalancerID)
	}
	if _, err := svc.Lacks(svc.Config.Provider); err != nil {
		return err
	}
	if svc.LoadBalancerID != "" {
		if err := r.checkScope(ctx); err != nil {
			return err
		}
	}
	if err := r.checkFloatingSubnet(ctx); err != nil {
		return err
	}
	if !svc.HasTCP() {
		return nil
	}
	return r.checkCertificate(ctx, svc.TLSRef)
}

// lostCreation is how long a creation whose answer was lost may still be under way: Octavia
// shows the load balancer only at the end of the request, which under load took it 30 s.
const lostCreation = time.Minute

// mayHaveLost returns KindRetryAfter while a creation of the name may still be under way.
func (r *reconciliation) mayHaveLost(name string) error {
	until, ok := r.creations.get(name, r.now())
	if !ok || !r.now().Before(until) {
		return nil
	}
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: min(until.Sub(r.now()), 5*time.Second),
		Err: fmt.Errorf("the answer to the creation of load balancer %s was lost: it is looked for until %s before another one is made", name, until.Format(time.TimeOnly))}
}

// isRefusal reports whether Octavia has certainly made nothing, because of what the request
// says or because a quota is met.
func isRefusal(err error) bool {
	switch cloud.KindOf(err) {
	case cloud.KindInvalid, cloud.KindUnsupported, cloud.KindConflict, cloud.KindDenied, cloud.KindStale, cloud.KindQuota:
		return true
	}
	return false
}

func (r *reconciliation) createOpts(ctx context.Context) (loadbalancers.CreateOpts, error) {
	svc, names := r.service, r.names
	vip := svc.VIP
	opts := loadbalancers.CreateOpts{Name: names.LB, Description: names.Description, Tags: names.Mark(nil, plan.Owner), Provider: svc.Config.Provider}
	if svc.Config.Provider != config.ProviderOVN {
		opts.FlavorID, opts.AvailabilityZone = vip.FlavorID, vip.Zone
	}
	if vip.Address.IsValid() {
		opts.VipAddress = vip.Address.String()
	}
	switch {
	case vip.PortID != "":
		opts.VipPortID = vip.PortID
	case vip.SubnetID != "" || vip.NetworkID != "":
		opts.VipSubnetID, opts.VipNetworkID = vip.SubnetID, vip.NetworkID
	default:
		subnet, err := r.subnetOfMembers(ctx)
		if err != nil {
			return opts, err
		}
		opts.VipSubnetID = subnet
	}
	return opts, r.vipFamily(ctx, &opts)
}

// witnesses is how many Nodes' servers are asked for at most, so that some may have gone.
const witnesses = 5

// checkScope refuses to make the load balancer of a Service anew that was served before where none
// of its Nodes' servers is known either: Octavia says "not found" in the same words of a load balancer
// that is gone and of one that is in the project which other credentials were for. All Services would
// get other load balancers there and lose their addresses. Where no Node tells, or Nova is not to be
// asked, the load balancer is made.
func (r *reconciliation) checkScope(ctx context.Context) error {
	asked := 0
	members := r.service.Spec.Members
	for _, m := range append(members[:len(members):len(members)], r.service.Spec.Candidates...) {
		id, region, err := providerid.Parse(m.Node.ProviderID)
		if err != nil || region != "" && region != r.c.Region() || asked == witnesses {
			continue
		}
		if err := r.server(ctx, id); !cloud.IsNotFound(err) {
			if isRefusal(err) { // which time does not mend
				return nil
			}
			return err
		}
		asked++
	}
	if asked == 0 {
		return nil
	}
	return cloud.Errorf(cloud.KindConflict, "load balancer %s is not found in %s, and neither are the servers of %d nodes: it is not made anew, as cloud.conf may be that of another project or region. If the load balancer is gone all the same, remove the annotations %s and %s",
		r.names.LB, r.octavia.Scope(), asked, plan.AnnLoadBalancerID, plan.AnnAddress)
}

// checkCertificate asks Barbican for the certificate of a listener that is about to get it. Octavia
// refuses one that is missing as well, but says so late, on a load balancer that is there already, and
// without the next step. Another store is not asked.
func (r *reconciliation) checkCertificate(ctx context.Context, ref string) error {
	if ref == "" || r.service.Config.ContainerStore != config.StoreBarbican {
		return nil
	}
	if problem := r.service.CertificateProblem(); problem != nil {
		return cloud.Refuse(cloud.KindInvalid, "", field.ErrorList{problem})
	}
	source := "annotation " + plan.AnnTLSContainerRef
	if !r.service.Spec.Settings.Has(plan.AnnTLSContainerRef) {
		source = "cloud.conf [LoadBalancer] default-tls-container-ref"
	}
	kind, id := plan.BarbicanRef(ref)
	what := strings.TrimSuffix(kind, "s") + " " + id
	sc, err := r.c.Service(ctx, api.KeyManager)
	if err != nil {
		return fmt.Errorf("%s: check the certificate: %w; if the cloud has no Barbican, set [LoadBalancer] container-store = external", source, err)
	}
	var doc struct{}
	err = api.With(sc, "get "+what).Read(ctx, &doc, kind, id)
	switch {
	case cloud.IsNotFound(err):
		return cloud.Errorf(cloud.KindInvalid, "%s: Barbican has no %s: store the certificate or correct the reference", source, what)
	case cloud.KindOf(err) == cloud.KindDenied:
		return &cloud.Error{Kind: cloud.KindDenied, Err: fmt.Errorf("%s: %w: let the cloud controller manager's user (and Octavia's) read it", source, err)}
	}
	return err
}
