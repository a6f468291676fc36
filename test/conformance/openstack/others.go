package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

// ReserveAddress implements cloudtest.World.
func (w *World) ReserveAddress(ctx context.Context) (cloudtest.Address, error) {
	f, err := floatingips.Create(ctx, w.neutron, floatingips.CreateOpts{FloatingNetworkID: w.external, Description: "reserved by " + w.suffix}).Extract()
	if err != nil {
		return cloudtest.Address{}, err
	}
	a, err := netip.ParseAddr(f.FloatingIP)
	return cloudtest.Address{IP: a, Release: func(ctx context.Context) error {
		now, err := floatingips.Get(ctx, w.neutron, f.ID).Extract()
		if err == nil && now.Description != f.Description {
			err = fmt.Errorf("its description was %q and is %q", f.Description, now.Description)
		}
		return errors.Join(err, gone(floatingips.Delete(ctx, w.neutron, f.ID).ExtractErr()))
	}}, err
}

func (w *World) removeAddresses(ctx context.Context) error {
	all, err := w.floatingIPs(ctx, floatingips.ListOpts{})
	errs := []error{err}
	for _, f := range all {
		errs = append(errs, gone(floatingips.Delete(ctx, w.neutron, f.ID).ExtractErr()))
	}
	return errors.Join(errs...)
}

// names are what OpenStack's controllers call what they make for a Service.
func names(ref cloud.LoadBalancerRef) (lb, fip string) {
	return fmt.Sprintf("kube_service_%s_%s_%s", ref.Cluster.Name, ref.Namespace, ref.Name),
		fmt.Sprintf("Floating IP for Kubernetes external service %s/%s from cluster %s", ref.Namespace, ref.Name, ref.Cluster.Name)
}

const foreignTag = "somebody-elses"

// MakeForeign implements cloudtest.World: a listener and a tag on the load balancer, and a
// load balancer, a floating IP and a security group of a Service whose name begins alike.
func (w *World) MakeForeign(ctx context.Context, ref cloud.LoadBalancerRef, id string) (intact, remove func(context.Context) error, err error) {
	next := ref
	next.Name, next.UID = ref.Name+"-next", uuid.NewString()
	lbName, fipText := names(next)
	// Octavia's timestamps have seconds, by which Isthmus knows what others change.
	if err := pause(ctx, 1100*time.Millisecond); err != nil {
		return nil, nil, err
	}
	f, err := floatingips.Create(ctx, w.neutron, floatingips.CreateOpts{FloatingNetworkID: w.external, Description: fipText}).Extract()
	if err != nil {
		return nil, nil, err
	}
	g, err := groups.Create(ctx, w.neutron, groups.CreateOpts{Name: fmt.Sprintf("lb-sg-%s-%s-%s", next.UID, next.Namespace, next.Name)}).Extract()
	if err != nil {
		return nil, nil, err
	}
	other, err := w.MakeLoadBalancer(ctx, lbName)
	if err != nil {
		return nil, nil, err
	}
	if err := w.addListener(ctx, id, "somebody-elses-listener", 7777); err != nil {
		return nil, nil, err
	}
	lb, err := loadbalancers.Get(ctx, w.octavia, id).Extract()
	if err != nil {
		return nil, nil, err
	}
	tags := append(slices.Clone(lb.Tags), foreignTag)
	if _, err := loadbalancers.Update(ctx, w.octavia, id, loadbalancers.UpdateOpts{Tags: &tags}).Extract(); err != nil {
		return nil, nil, err
	}
	if err := w.untilActive(ctx, id); err != nil {
		return nil, nil, err
	}
	intact = func(ctx context.Context) error {
		_, err1 := floatingips.Get(ctx, w.neutron, f.ID).Extract()
		_, err2 := groups.Get(ctx, w.neutron, g.ID).Extract()
		_, err3 := loadbalancers.Get(ctx, w.octavia, other).Extract()
		return errors.Join(err1, err2, err3, w.hasForeign(ctx, id))
	}
	remove = func(ctx context.Context) error {
		return errors.Join(gone(floatingips.Delete(ctx, w.neutron, f.ID).ExtractErr()), gone(groups.Delete(ctx, w.neutron, g.ID).ExtractErr()),
			w.DeleteLoadBalancer(ctx, other), w.DeleteLoadBalancer(ctx, id))
	}
	return intact, remove, nil
}

func (w *World) hasForeign(ctx context.Context, id string) error {
	lb, err := loadbalancers.Get(ctx, w.octavia, id).Extract()
	if err != nil {
		return err
	}
	if !slices.Contains(lb.Tags, foreignTag) {
		return fmt.Errorf("load balancer %s has the tags %q, %q is gone", id, lb.Tags, foreignTag)
	}
	all, err := w.listenersOf(ctx, id)
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.Port == 7777 {
			return nil
		}
	}
	return fmt.Errorf("load balancer %s has lost the listener of somebody else", id)
}

// Left implements cloudtest.World.
func (w *World) Left(ctx context.Context, ref cloud.LoadBalancerRef) ([]string, error) {
	lb, fip := names(ref)
	objects, err := w.objects(ctx)
	var out []string
	for _, o := range objects {
		own := o.name == lb || strings.HasSuffix(o.name, "_"+lb) || o.description == fip ||
			o.kind == "security group" && strings.Contains(o.name, ref.UID)
		if own {
			out = append(out, o.String())
		}
	}
	return out, err
}

// Everything implements cloudtest.World.
func (w *World) Everything(ctx context.Context) ([]string, error) {
	objects, err := w.objects(ctx)
	var out []string
	for _, o := range objects {
		out = append(out, o.String())
	}
	routes, routesErr := w.Routes(ctx)
	for _, r := range routes {
		out = append(out, fmt.Sprintf("route %s via %s", r.Destination, r.NextHop))
	}
	return out, errors.Join(err, routesErr)
}

type anObject struct{ kind, id, name, description string }

func (o anObject) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", o.kind, o.id, strings.TrimSpace(o.name+" "+o.description)))
}

// objects lists all that the project has, but for Neutron's own ports.
func (w *World) objects(ctx context.Context) ([]anObject, error) {
	var out []anObject
	add := func(kind, id, name, description string) { out = append(out, anObject{kind, id, name, description}) }
	vs, err1 := w.servers(ctx)
	for _, v := range vs {
		add("server", v.ID, v.Name, "")
	}
	ps, err2 := w.ports(ctx, ports.ListOpts{})
	for _, p := range ps {
		if !strings.HasPrefix(p.DeviceOwner, "network:") && !strings.HasPrefix(p.DeviceOwner, "compute:") {
			add("port", p.ID, p.Name, "")
		}
	}
	fs, err3 := w.floatingIPs(ctx, floatingips.ListOpts{})
	for _, f := range fs {
		add("floating IP", f.ID, "", f.Description)
	}
	err4 := w.eachGroup(ctx, add)
	return out, errors.Join(err1, err2, err3, err4, w.eachBalancer(ctx, add), w.eachVolume(ctx, add))
}

func (w *World) eachGroup(ctx context.Context, add func(kind, id, name, description string)) error {
	pages, err := groups.List(w.neutron, groups.ListOpts{}).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := groups.ExtractGroups(pages)
	for _, g := range all {
		add("security group", g.ID, g.Name, g.Description)
	}
	return err
}

func (w *World) eachVolume(ctx context.Context, add func(kind, id, name, description string)) error {
	pages, err := volumes.List(w.cinder, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	all, err := volumes.ExtractVolumes(pages)
	for _, v := range all {
		add("volume", v.ID, v.Name, "")
	}
	return err
}

func (w *World) eachBalancer(ctx context.Context, add func(kind, id, name, description string)) error {
	lbs, err := w.balancers(ctx)
	if err != nil {
		return err
	}
	for _, lb := range lbs {
		add("load balancer", lb.ID, lb.Name, "")
	}
	pages, err := listeners.List(w.octavia, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	ls, err := listeners.ExtractListeners(pages)
	for _, l := range ls {
		add("listener", l.ID, l.Name, "")
	}
	if err != nil {
		return err
	}
	if pages, err = pools.List(w.octavia, nil).AllPages(ctx); err != nil {
		return err
	}
	ps, err := pools.ExtractPools(pages)
	for _, p := range ps {
		add("pool", p.ID, p.Name, "")
	}
	if err != nil {
		return err
	}
	if pages, err = monitors.List(w.octavia, nil).AllPages(ctx); err != nil {
		return err
	}
	ms, err := monitors.ExtractMonitors(pages)
	for _, m := range ms {
		add("health monitor", m.ID, m.Name, "")
	}
	return err
}
