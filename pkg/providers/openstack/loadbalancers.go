package openstack

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/await"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/keylock"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/neutron"
)

var (
	_ cloud.LoadBalancers = (*LoadBalancers)(nil)
	_ cloud.Waiting       = (*LoadBalancers)(nil)
)

// LoadBalancers implements cloud.LoadBalancers with Octavia and Neutron's floating IPs.
//
// Each operation finds the load balancer, compares its tree of listeners, pools, members
// and monitors with what the Service wants (diffTree, pure) and makes the calls that are
// left. Nothing of importance is kept in the process: an operation that is cut off at any
// point is taken up by the next one.
type LoadBalancers struct {
	c   *api.Client
	cfg *config.Config
	// server is an error unless Nova knows the server of that ID.
	server func(ctx context.Context, id string) error
	waits  lbWaits
	now    func() time.Time
	trees  treeCache
	// await looks at what Octavia works on; see waiter. underway is who waits for what of it.
	awaitOnce sync.Once
	await     *await.Waiter[*octaviaLB]
	underway  lbUnderway
	// creates and changes bound what Octavia is asked to do at a time.
	creates, changes crowd
	// lookUps and fips are reads that operations share.
	lookUps together[map[string]lbFound]
	fips    together[map[string][]neutron.FloatingIP]
	// locks let one operation at a time work on each load balancer, by its ID: Octavia has no
	// conditional updates (Zed ignores If-Match), so that two Services that share a load balancer
	// would lose each other's tags.
	locks keylock.Locks[string]
	// creations are those whose answer was lost.
	creations lostCreations
	repairs   repairs
	// snapshots are what start-up reads of all load balancers at once.
	snapshots lbSnapshots
	// groups and extensions are those of managed security groups.
	groups     groupCache
	oldGroups  oldGroups
	renamed    renamedLBs
	extensions neutron.Extensions

	subnets  *neutron.Subnets
	floating *neutron.FloatingIPs
	minor    atomic.Int64 // newest version 2.x of Octavia's API
}

func newLoadBalancers(c *api.Client, cfg *config.Config, server func(ctx context.Context, id string) error) *LoadBalancers {
	return &LoadBalancers{c: c, cfg: cfg, server: server, subnets: neutron.NewSubnets(c), floating: neutron.NewFloatingIPs(c), waits: defaultLBWaits(), now: time.Now}
}

// Ensure implements cloud.LoadBalancers.
func (l *LoadBalancers) Ensure(ctx context.Context, spec *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	w, err := wishesOf(spec, l.cfg)
	if err != nil {
		return nil, err
	}
	o, err := l.operation(ctx, spec.LoadBalancerRef)
	if err != nil {
		return nil, err
	}
	if spec.Verify {
		o.repaired = l.repairs.take(spec.UID)
	}
	status, err := o.ensure(ctx, w)
	if err == nil {
		err = o.leaveFormer(ctx, w, status)
	}
	if err != nil {
		l.repairs.keep(spec.UID, o.repaired)
		return nil, err
	}
	return status, nil
}

func (o *lbOperation) ensure(ctx context.Context, w *lbWishes) (*cloud.LoadBalancerStatus, error) {
	if err := o.readMemberSubnet(ctx, w); err != nil {
		return nil, err
	}
	lb, owner, done, err := o.take(ctx, w)
	if err != nil {
		return nil, err
	}
	defer done()
	if lb != nil {
		if lb, err = o.settle(ctx, w, lb, owner); err != nil {
			return nil, err
		}
	}
	if lb == nil {
		return o.ensureNew(ctx, w)
	}
	if err := w.serveFamilies(lb); err != nil {
		return nil, err
	}
	want, warnings, err := w.want(lb.Provider)
	if err != nil {
		return nil, err
	}
	if !owner {
		if o.shared, err = o.sharedFIP(ctx, w, lb); err != nil {
			return nil, err
		}
	}
	known, err := o.known(ctx, lb, w.spec.Verify)
	if err != nil {
		return nil, err
	}
	o.newborn = w.isNewborn(lb)
	if known.fresh && len(publishedAddresses(w)) == 0 {
		o.lb.oldGroups.isNew(w.spec.LoadBalancerRef)
	}
	if lb, err = o.claim(ctx, w, lb, owner, known.tree, want); err != nil {
		return nil, err
	}
	return o.converge(ctx, w, lb, owner, known, want, append(warnings, w.fixedAtCreation(lb)...))
}

// take finds the Service's load balancer (nil when there is none) and waits until nobody else
// works on it, which done ends. From then on w has the names of what is on it.
func (o *lbOperation) take(ctx context.Context, w *lbWishes) (lb *octaviaLB, owner bool, done func(), err error) {
	done = func() {}
	h, err := o.locate(ctx, w)
	if err != nil || h == nil {
		return nil, false, done, err
	}
	w.names, lb, owner = h.names, h.lb, h.owner
	o.work.id, o.work.names, o.work.owner = lb.ID, h.names, h.owner
	done, waited, err := o.lb.locks.Lock(ctx, lb.ID)
	if err != nil {
		return nil, owner, func() {}, fmt.Errorf("load balancer %s: wait for the other Service's change to end: %w", lb.ID, err)
	}
	if waited {
		if lb, err = o.get(ctx, lb.ID); err != nil {
			done()
			return nil, owner, func() {}, err
		}
	}
	return lb, owner, done, nil
}

// locate finds the Service's load balancer, nil when there is none.
func (o *lbOperation) locate(ctx context.Context, w *lbWishes) (*holding, error) {
	ref := w.spec.LoadBalancerRef
	if h, err := o.resume(ctx, ref); err != nil || h != nil {
		return h, err
	}
	if lb := o.fromSnapshot(ctx, w); lb != nil {
		return o.recognize(ctx, namesFor(ref), evidenceOf(ref), lb)
	}
	return o.find(ctx, ref)
}

// ensureNew makes the load balancer and all that belongs to it.
func (o *lbOperation) ensureNew(ctx context.Context, w *lbWishes) (*cloud.LoadBalancerStatus, error) {
	if w.loadBalancerID != "" && len(publishedAddresses(w)) == 0 {
		// Never served before: the user has set the annotation, and has set it wrong.
		return nil, cloud.Errorf(cloud.KindInvalid, "annotation %s: there is no load balancer %s in this project and region; correct or remove the annotation",
			annLoadBalancerID, w.loadBalancerID)
	}
	w.names = namesFor(w.spec.LoadBalancerRef)
	want, _, err := w.want(w.cfg.Provider)
	if err != nil {
		return nil, err
	}
	if w.loadBalancerID != "" {
		if err := o.checkScope(ctx, w); err != nil {
			return nil, err
		}
	}
	if err := o.checkFloatingSubnet(ctx, w); err != nil {
		return nil, err
	}
	lb, known, err := o.create(ctx, w, want)
	if err != nil {
		return nil, err
	}
	if err := w.serveFamilies(lb); err != nil {
		return nil, err
	}
	want, warnings, err := w.want(lb.Provider)
	if err != nil {
		return nil, err
	}
	if len(publishedAddresses(w)) == 0 {
		o.lb.oldGroups.isNew(w.spec.LoadBalancerRef)
	} else if w.spec.Verify {
		o.repaired = append(o.repaired, "the load balancer was gone and was made anew")
	}
	return o.converge(ctx, w, lb, true, *known, want, warnings)
}

// converge makes the changes that are left, gives the VIP its address and returns the status.
func (o *lbOperation) converge(ctx context.Context, w *lbWishes, lb *octaviaLB, owner bool, known treeEntry, want *lbTree, warnings []string) (*cloud.LoadBalancerStatus, error) {
	lb, err := o.change(ctx, w, lb, owner, &known, want)
	if err != nil {
		return nil, err
	}
	fresh, made := known.fresh, known.floating
	known.fresh, known.floating = false, ""
	o.lb.trees.put(lb, known, o.lb.now())
	floating := o.shared
	switch {
	case !owner:
	case w.hasFIP():
		known.internal = ""
		if floating = made; floating != "" {
			break
		}
		if floating, err = o.ensureFIP(ctx, w, lb, false); err != nil {
			return nil, err
		}
	case known.internal != w.names.lb && !fresh:
		left, err := o.removeFIPs(ctx, w.names, w.keepFIP, lb)
		if err != nil {
			return nil, err
		}
		if known.internal = w.names.lb; left != "" {
			known.internal = ""
			o.warnings = append(o.warnings, fmt.Sprintf("load balancer %s keeps the floating IP %s, by which other Services that share it are reached: so this Service is reached there as well; give those a load balancer of their own", lb.ID, left))
		}
	default:
		known.internal = w.names.lb
	}
	o.lb.trees.put(lb, known, o.lb.now())
	if w.refused != nil {
		return nil, w.refused // all the rest is done: whoever was served before still is
	}
	status := o.lb.status(w.spec.Settings, lb, lb.addresses(floating, w.second), floating, append(warnings, o.warnings...))
	slices.Sort(o.repaired)
	status.Repaired = slices.Compact(o.repaired)
	return status, nil
}

// UpdateMembers implements cloud.LoadBalancers.
func (l *LoadBalancers) UpdateMembers(ctx context.Context, spec *cloud.LoadBalancerSpec) error {
	w, err := wishesOf(spec, l.cfg)
	if spec.Frozen && spec.Cluster.UID != "" {
		w, err = readWishes(spec, l.cfg), nil
	}
	if err != nil {
		return err
	}
	w.likelySubnet = w.likelySubnetLater
	o, err := l.operation(ctx, spec.LoadBalancerRef)
	if err != nil {
		return err
	}
	if err := o.readMemberSubnet(ctx, w); err != nil {
		return err
	}
	lb, owner, done, err := o.take(ctx, w)
	if err != nil {
		return err
	}
	defer done()
	if lb == nil {
		return cloud.Errorf(cloud.KindNotFound, "update members: load balancer %s does not exist", w.names.lb)
	}
	if spec.Frozen && !owner && !w.isKnownAs(lb) || !spec.Frozen && !slices.Contains(lb.Tags, w.names.lb) {
		return cloud.Errorf(cloud.KindConflict, "update members: load balancer %s is not the Service's yet", lb.ID)
	}
	if lb.isPending() {
		if lb, err = o.waitIdle(ctx, lb.ID); err != nil {
			return err
		}
	}
	var want *lbTree
	if spec.Frozen {
		w.second = w.twoFamilies() && lb.secondAddress() != ""
	} else if want, err = w.wantOf(lb); err != nil {
		return err
	}
	known, err := o.known(ctx, lb, false)
	if err != nil {
		return err
	}
	_, err = o.change(ctx, w, lb, owner, &known, want)
	return err
}

// wantOf is the tree that the Service wants of a load balancer that there is.
func (w *lbWishes) wantOf(lb *octaviaLB) (*lbTree, error) {
	if err := w.serveFamilies(lb); err != nil {
		return nil, err
	}
	want, _, err := w.want(lb.Provider)
	return want, err
}

// status is what is published.
func (l *LoadBalancers) status(s cloud.Settings, lb *octaviaLB, addresses []string, floating string, warnings []string) *cloud.LoadBalancerStatus {
	cfg := &l.cfg.LoadBalancer
	mode, suffix := corev1.LoadBalancerIPModeVIP, ""
	if s.String(annProxyProtocol, "false") != "false" {
		mode = corev1.LoadBalancerIPModeProxy
		if cfg.EnableIngressHostname && len(validation.IsDNS1123Subdomain(cfg.IngressHostnameSuffix)) == 0 {
			suffix = cfg.IngressHostnameSuffix
		}
	}
	address := addresses[0]
	if floating != "" { // found by it when the load balancer has gone
		address = floating
	}
	return &cloud.LoadBalancerStatus{
		Ingress:     ingressOf(addresses, s.String(annHostname, ""), suffix, mode),
		Annotations: map[string]string{annLoadBalancerID: lb.ID, annAddress: address},
		Warnings:    warnings,
	}
}
