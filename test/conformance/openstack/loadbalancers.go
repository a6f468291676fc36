package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
)

const annotations = "loadbalancer.openstack.org/"

// Settings implements cloudtest.World.
func (w *World) Settings(_ context.Context, f cloudtest.Feature) (cloud.Settings, error) {
	switch f {
	case cloudtest.LoadBalancerHTTP:
		return cloud.Settings{annotations + "x-forwarded-for": "true"}, nil
	case cloudtest.LoadBalancerTLS:
		return cloud.Settings{annotations + "default-tls-container-ref": w.certificate}, nil
	case cloudtest.LoadBalancerPROXY:
		return cloud.Settings{annotations + "proxy-protocol": "v2"}, nil
	case cloudtest.LoadBalancerPROXYv1:
		return cloud.Settings{annotations + "proxy-protocol": "v1"}, nil
	case cloudtest.LoadBalancerInternal:
		return cloud.Settings{"service.beta.kubernetes.io/openstack-internal-load-balancer": "true"}, nil
	case cloudtest.LoadBalancerHostname:
		return cloud.Settings{annotations + "hostname": cloudtest.HostName}, nil
	case cloudtest.LoadBalancerIPv6:
		return cloud.Settings{annotations + "subnet-id": w.subnet6}, nil
	case cloudtest.LoadBalancerDual:
		return nil, nil
	}
	return nil, fmt.Errorf("no annotations ask for %s", f)
}

// UseLoadBalancer implements cloudtest.World.
func (w *World) UseLoadBalancer(id string) cloud.Settings {
	return cloud.Settings{annotations + "load-balancer-id": id}
}

// LoadBalancerID implements cloudtest.World.
func (w *World) LoadBalancerID(s *cloud.LoadBalancerStatus) string {
	return s.Annotations[annotations+"load-balancer-id"]
}

// MakeLoadBalancer implements cloudtest.World.
func (w *World) MakeLoadBalancer(ctx context.Context, name string) (string, error) {
	lb, err := loadbalancers.Create(ctx, w.octavia, loadbalancers.CreateOpts{Name: name, VipSubnetID: w.subnet4, Provider: w.provider}).Extract()
	if err != nil {
		return "", fmt.Errorf("make load balancer %s: %w", name, err)
	}
	if err := w.untilActive(ctx, lb.ID); err != nil {
		return lb.ID, err
	}
	return lb.ID, w.addListener(ctx, lb.ID, "listener-"+name, 7000)
}

// addListener adds a listener with a pool of its own.
func (w *World) addListener(ctx context.Context, lb, name string, port int) error {
	_, err := listeners.Create(ctx, w.octavia, listeners.CreateOpts{LoadbalancerID: lb, Name: name, Protocol: listeners.ProtocolTCP, ProtocolPort: port}).Extract()
	if err != nil {
		return err
	}
	return w.untilActive(ctx, lb)
}

func (w *World) untilActive(ctx context.Context, id string) error {
	return until(ctx, "load balancer "+id, func() (bool, error) {
		lb, err := loadbalancers.Get(ctx, w.octavia, id).Extract()
		if err != nil {
			return false, err
		}
		if lb.ProvisioningStatus == "ERROR" {
			return false, errors.New("it is in state ERROR")
		}
		return lb.ProvisioningStatus == "ACTIVE", nil
	})
}

// DeleteLoadBalancer implements cloudtest.World.
func (w *World) DeleteLoadBalancer(ctx context.Context, id string) error {
	return until(ctx, "deletion of load balancer "+id, func() (bool, error) {
		err := loadbalancers.Delete(ctx, w.octavia, id, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
		if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
			return false, nil // it is being changed, or deleted
		}
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return true, nil
		}
		return false, err
	})
}

func (w *World) removeLoadBalancers(ctx context.Context) error {
	all, err := w.balancers(ctx)
	errs := []error{err}
	for _, lb := range all {
		errs = append(errs, w.DeleteLoadBalancer(ctx, lb.ID))
	}
	return errors.Join(errs...)
}

func (w *World) balancers(ctx context.Context) ([]loadbalancers.LoadBalancer, error) {
	pages, err := loadbalancers.List(w.octavia, nil).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return loadbalancers.ExtractLoadBalancers(pages)
}

// LoadBalancer implements cloudtest.World.
func (w *World) LoadBalancer(ctx context.Context, id string) (*cloudtest.LoadBalancer, error) {
	lb, err := loadbalancers.Get(ctx, w.octavia, id).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if lb.ProvisioningStatus != "ACTIVE" {
		return nil, fmt.Errorf("load balancer %s is left in state %s", id, lb.ProvisioningStatus)
	}
	out := &cloudtest.LoadBalancer{ID: lb.ID}
	vips := []string{lb.VipAddress}
	for _, v := range lb.AdditionalVips {
		vips = append(vips, v.IPAddress)
	}
	for _, v := range vips {
		if a, err := netip.ParseAddr(v); err == nil { // provider ovn gives additional VIPs no address
			out.Private = append(out.Private, a)
		}
	}
	fips, err := w.floatingIPs(ctx, floatingips.ListOpts{PortID: lb.VipPortID})
	if err != nil {
		return nil, err
	}
	for _, f := range fips {
		a, err := netip.ParseAddr(f.FloatingIP)
		if err != nil {
			return nil, err
		}
		out.Public = append(out.Public, a)
	}
	out.Listeners, err = w.listenersOf(ctx, lb.ID)
	return out, err
}

func (w *World) floatingIPs(ctx context.Context, o floatingips.ListOpts) ([]floatingips.FloatingIP, error) {
	pages, err := floatingips.List(w.neutron, o).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	return floatingips.ExtractFloatingIPs(pages)
}

func (w *World) listenersOf(ctx context.Context, lb string) ([]cloudtest.Listener, error) {
	pages, err := listeners.List(w.octavia, listeners.ListOpts{LoadbalancerID: lb}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := listeners.ExtractListeners(pages)
	if err != nil {
		return nil, err
	}
	var out []cloudtest.Listener
	for _, l := range all {
		v := cloudtest.Listener{Port: int32(l.ProtocolPort), Protocol: transport(l.Protocol), HTTP: l.Protocol == "HTTP" || l.Protocol == "TERMINATED_HTTPS", //nolint:gosec // a port
			TLS: l.Protocol == "TERMINATED_HTTPS", ForwardedFor: l.InsertHeaders["X-Forwarded-For"] == "true"}
		for _, c := range l.AllowedCIDRs {
			p, err := netip.ParsePrefix(c)
			if err != nil {
				return nil, err
			}
			if p.Bits() > 0 { // everyone
				v.Clients = append(v.Clients, p)
			}
		}
		if l.DefaultPoolID != "" {
			if err := w.readPool(ctx, l.DefaultPoolID, &v); err != nil {
				return nil, err
			}
		}
		out = append(out, v)
	}
	return out, nil
}

func transport(protocol string) corev1.Protocol {
	if protocol == "UDP" || protocol == "SCTP" {
		return corev1.Protocol(protocol)
	}
	return corev1.ProtocolTCP
}

// readPool adds what is behind a listener.
func (w *World) readPool(ctx context.Context, id string, v *cloudtest.Listener) error {
	p, err := pools.Get(ctx, w.octavia, id).Extract()
	if err != nil {
		return err
	}
	v.Affinity = p.Persistence.Type == "SOURCE_IP"
	v.Proxy = map[string]int{"PROXY": 1, "PROXYV2": 2}[p.Protocol]
	pages, err := pools.ListMembers(w.octavia, id, nil).AllPages(ctx)
	if err != nil {
		return err
	}
	members, err := pools.ExtractMembers(pages)
	if err != nil {
		return err
	}
	var check *monitors.Monitor
	if p.MonitorID != "" {
		if check, err = monitors.Get(ctx, w.octavia, p.MonitorID).Extract(); err != nil {
			return err
		}
		if check.Type == "HTTP" {
			v.CheckPath = check.URLPath
		}
	}
	for _, m := range members {
		a, err := netip.ParseAddr(m.Address)
		if err != nil {
			return err
		}
		v.Members = append(v.Members, netip.AddrPortFrom(a, uint16(m.ProtocolPort))) //nolint:gosec // a port
		if v.CheckPath != "" {
			v.CheckPort = int32(m.MonitorPort) //nolint:gosec // a port
		}
	}
	slices.SortFunc(v.Members, netip.AddrPort.Compare)
	return nil
}
