// Package occm makes, by the cloud's and the cluster's own APIs, what
// openstack-cloud-controller-manager leaves: its names, descriptions, tags, values,
// annotations and finalizers, and nothing of ours. It follows the facts about that program,
// not our code, so that tests of taking over hold against the simulator and a real cloud.
package occm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// The annotations that decide what is made.
const (
	prefix         = "loadbalancer.openstack.org/"
	internal       = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	forwardedFor   = prefix + "x-forwarded-for"
	certificate    = prefix + "default-tls-container-ref"
	proxyProtocol  = prefix + "proxy-protocol"
	loadBalancerID = prefix + "load-balancer-id"
	address        = prefix + "load-balancer-address"
)

// Cloud is the project that OCCM has worked in, and how it was configured.
type Cloud struct {
	LoadBalancer, Network       *gophercloud.ServiceClient
	SubnetID, FloatingNetworkID string
	// Provider is Octavia's: amphora or ovn.
	Provider string
	// Monitors is create-monitor.
	Monitors bool
}

// Name is that of a Service's load balancer, and the tag of all that belongs to the Service.
func Name(s cloud.LoadBalancerRef) string {
	return fmt.Sprintf("kube_service_%s_%s_%s", s.Cluster.Name, s.Namespace, s.Name)
}

// Make makes the load balancer of a Service, with a floating IP unless it is internal, and
// returns its ID and the Service's address.
func (c *Cloud) Make(ctx context.Context, s *cloud.LoadBalancerSpec) (id, ip string, err error) {
	text := fmt.Sprintf("Kubernetes external service %s/%s from cluster %s", s.Namespace, s.Name, s.Cluster.Name)
	lb, err := loadbalancers.Create(ctx, c.LoadBalancer, loadbalancers.CreateOpts{
		Name: Name(s.LoadBalancerRef), Description: text, VipSubnetID: c.SubnetID, Provider: c.Provider,
	}).Extract()
	if err != nil {
		return "", "", fmt.Errorf("create load balancer: %w", err)
	}
	if err := c.Share(ctx, s, lb.ID); err != nil {
		return lb.ID, "", err
	}
	if s.Settings[internal] == "true" {
		return lb.ID, lb.VipAddress, nil
	}
	f, err := floatingips.Create(ctx, c.Network, floatingips.CreateOpts{FloatingNetworkID: c.FloatingNetworkID, PortID: lb.VipPortID, Description: "Floating IP for " + text}).Extract()
	if err != nil {
		return lb.ID, "", fmt.Errorf("create floating IP: %w", err)
	}
	return lb.ID, f.FloatingIP, nil
}

// Share puts a Service's tag and listeners on a load balancer that is there already.
func (c *Cloud) Share(ctx context.Context, s *cloud.LoadBalancerSpec, id string) error {
	lb, err := c.active(ctx, id)
	if err != nil {
		return err
	}
	tags := append(slices.Clone(lb.Tags), Name(s.LoadBalancerRef))
	if err := loadbalancers.Update(ctx, c.LoadBalancer, id, loadbalancers.UpdateOpts{Tags: &tags}).Err; err != nil {
		return fmt.Errorf("tag load balancer %s: %w", id, err)
	}
	for i, p := range s.Ports {
		if err := c.serve(ctx, s, id, i, p); err != nil {
			return fmt.Errorf("port %d of load balancer %s: %w", p.Port, id, err)
		}
	}
	_, err = c.active(ctx, id)
	return err
}

// serve makes the listener of a port with its pool, members and monitor.
func (c *Cloud) serve(ctx context.Context, s *cloud.LoadBalancerSpec, id string, i int, p cloud.LoadBalancerPort) error {
	listener, pool := c.listener(s, i, p)
	listener.LoadbalancerID = id
	if _, err := c.active(ctx, id); err != nil {
		return err
	}
	l, err := listeners.Create(ctx, c.LoadBalancer, listener).Extract()
	if err != nil {
		return err
	}
	pool.ListenerID = l.ID
	if _, err := c.active(ctx, id); err != nil {
		return err
	}
	made, err := pools.Create(ctx, c.LoadBalancer, pool).Extract()
	if err != nil {
		return err
	}
	if members := c.members(s, p); len(members) > 0 {
		if _, err := c.active(ctx, id); err != nil {
			return err
		}
		if err := pools.BatchUpdateMembers(ctx, c.LoadBalancer, made.ID, members).ExtractErr(); err != nil {
			return err
		}
	}
	if !c.Monitors || c.Provider == "ovn" {
		return nil
	}
	monitor := c.monitor(s, i, p)
	monitor.PoolID = made.ID
	if _, err := c.active(ctx, id); err != nil {
		return err
	}
	return monitors.Create(ctx, c.LoadBalancer, monitor).Err
}

func (c *Cloud) listener(s *cloud.LoadBalancerSpec, i int, p cloud.LoadBalancerPort) (listeners.CreateOpts, pools.CreateOpts) {
	name := Name(s.LoadBalancerRef)
	limit, client, connect, member, inspect := -1, 50000, 5000, 50000, 0
	l := listeners.CreateOpts{
		Name: fmt.Sprintf("listener_%d_%s", i, name), Protocol: listeners.Protocol(p.Protocol), ProtocolPort: int(p.Port), ConnLimit: &limit, Tags: []string{name},
	}
	pool := pools.CreateOpts{Name: fmt.Sprintf("pool_%d_%s", i, name), Protocol: pools.Protocol(p.Protocol), LBMethod: pools.LBMethodRoundRobin}
	if c.Provider == "ovn" {
		pool.LBMethod = pools.LBMethodSourceIpPort
	} else {
		l.TimeoutClientData, l.TimeoutMemberConnect, l.TimeoutMemberData, l.TimeoutTCPInspect = &client, &connect, &member, &inspect
		l.AllowedCIDRs = []string{"0.0.0.0/0"}
	}
	if s.SessionAffinityTimeout > 0 {
		pool.Persistence = &pools.SessionPersistence{Type: "SOURCE_IP"}
	}
	if p.Protocol != corev1.ProtocolTCP {
		return l, pool
	}
	if s.Settings[forwardedFor] == "true" {
		l.Protocol, pool.Protocol, l.InsertHeaders = "HTTP", "HTTP", map[string]string{"X-Forwarded-For": "true"}
	}
	if ref := s.Settings[certificate]; ref != "" {
		l.Protocol, pool.Protocol, l.DefaultTlsContainerRef = "TERMINATED_HTTPS", "HTTP", ref
	}
	switch s.Settings[proxyProtocol] {
	case "true", "v1":
		pool.Protocol = "PROXY"
	case "v2":
		pool.Protocol = "PROXYV2"
	}
	return l, pool
}

func (c *Cloud) members(s *cloud.LoadBalancerSpec, p cloud.LoadBalancerPort) []pools.BatchUpdateMemberOpts {
	var out []pools.BatchUpdateMemberOpts
	for _, m := range s.Members {
		name, subnet := m.Node.NodeName, c.SubnetID
		opts := pools.BatchUpdateMemberOpts{Name: &name, Address: m.Addresses[0].String(), ProtocolPort: int(p.NodePort), SubnetID: &subnet}
		if s.HealthCheck != nil && c.Monitors {
			port := int(s.HealthCheck.Port)
			opts.MonitorPort = &port
		}
		out = append(out, opts)
	}
	return out
}

func (c *Cloud) monitor(s *cloud.LoadBalancerSpec, i int, p cloud.LoadBalancerPort) monitors.CreateOpts {
	opts := monitors.CreateOpts{Name: fmt.Sprintf("monitor_%d_%s", i, Name(s.LoadBalancerRef)), Type: "TCP", Delay: 5, Timeout: 3, MaxRetries: 1, MaxRetriesDown: 3}
	switch {
	case s.HealthCheck != nil:
		opts.Type, opts.URLPath, opts.HTTPMethod, opts.ExpectedCodes = "HTTP", "/healthz", "GET", "200"
	case p.Protocol == corev1.ProtocolUDP:
		opts.Type = "UDP-CONNECT"
	}
	return opts
}

// active waits until the load balancer takes changes.
func (c *Cloud) active(ctx context.Context, id string) (*loadbalancers.LoadBalancer, error) {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		lb, err := loadbalancers.Get(ctx, c.LoadBalancer, id).Extract()
		if err != nil {
			return nil, fmt.Errorf("load balancer %s: %w", id, err)
		}
		switch lb.ProvisioningStatus {
		case "ACTIVE":
			return lb, nil
		case "ERROR":
			return nil, fmt.Errorf("load balancer %s is in status ERROR", id)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("load balancer %s is %s: %w", id, lb.ProvisioningStatus, ctx.Err())
		case <-time.After(wait):
		}
	}
}
