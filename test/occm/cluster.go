package occm

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/extraroutes"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
)

// Spec is what OCCM reads of a Service and of the Nodes behind it.
func Spec(cluster string, s *corev1.Service, members []cloud.LoadBalancerMember) *cloud.LoadBalancerSpec {
	spec := &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cloud.Cluster{Name: cluster}, Namespace: s.Namespace, Name: s.Name, Settings: s.Annotations},
		Members:         members,
	}
	for _, p := range s.Spec.Ports {
		spec.Ports = append(spec.Ports, cloud.LoadBalancerPort{Protocol: p.Protocol, Port: p.Port, NodePort: p.NodePort})
	}
	return spec
}

// Publish writes to the Service which load balancer it has.
func Publish(ctx context.Context, client kubernetes.Interface, s *corev1.Service, id, ip string) error {
	updated := s.DeepCopy()
	if !servicehelper.HasLBFinalizer(s) {
		updated.Finalizers = append(updated.Finalizers, servicehelper.LoadBalancerCleanupFinalizer)
	}
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	updated.Annotations[loadBalancerID], updated.Annotations[address] = id, ip
	mode := corev1.LoadBalancerIPModeVIP
	updated.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip, IPMode: &mode}}
	if _, err := servicehelper.PatchService(client.CoreV1(), s, updated); err != nil {
		return fmt.Errorf("publish the load balancer of Service %s: %w", s.Name, err)
	}
	return nil
}

// Route makes the route of a server's pod CIDR, and lets the server's only port send from it.
func (c *Cloud) Route(ctx context.Context, routerID, serverID, cidr, hop string) error {
	all, err := ports.List(c.Network, ports.ListOpts{DeviceID: serverID}).AllPages(ctx)
	if err != nil {
		return fmt.Errorf("list the ports of server %s: %w", serverID, err)
	}
	list, err := ports.ExtractPorts(all)
	if err != nil {
		return fmt.Errorf("list the ports of server %s: %w", serverID, err)
	}
	if len(list) != 1 {
		return fmt.Errorf("server %s has the ports %v, want one", serverID, list)
	}
	pairs := []ports.AddressPair{{IPAddress: cidr}}
	if err := ports.Update(ctx, c.Network, list[0].ID, ports.UpdateOpts{AllowedAddressPairs: &pairs}).Err; err != nil {
		return fmt.Errorf("allow %s on port %s: %w", cidr, list[0].ID, err)
	}
	routes := []routers.Route{{DestinationCIDR: cidr, NextHop: hop}}
	if err := extraroutes.Add(ctx, c.Network, routerID, extraroutes.Opts{Routes: &routes}).Err; err != nil {
		return fmt.Errorf("add route %s to router %s: %w", cidr, routerID, err)
	}
	return nil
}
