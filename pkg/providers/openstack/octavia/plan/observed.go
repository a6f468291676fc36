package plan

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// LoadBalancer is a load balancer as Octavia answers it.
type LoadBalancer struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	ProjectID    string   `json:"project_id"`
	Description  string   `json:"description"`
	Status       string   `json:"provisioning_status"`
	Provider     string   `json:"provider"`
	VIPAddress   string   `json:"vip_address"`
	VIPPortID    string   `json:"vip_port_id"`
	VIPSubnetID  string   `json:"vip_subnet_id"`
	VIPNetworkID string   `json:"vip_network_id"`
	FlavorID     string   `json:"flavor_id"`
	Zone         string   `json:"availability_zone"`
	Tags         []string `json:"tags"`
	// Listeners and Pools are all there are, by ID.
	Listeners []Ref `json:"listeners"`
	Pools     []Ref `json:"pools"`
	// AdditionalVIPs are VIPs beside the first one.
	AdditionalVIPs []AdditionalVIP `json:"additional_vips"`
	// UpdatedAt changes whenever the load balancer or a child of it does, because each
	// change takes the load balancer through a PENDING state.
	UpdatedAt string `json:"updated_at"`
}

// Ref names an object by its ID.
type Ref struct {
	ID string `json:"id"`
}

// AdditionalVIP is an additional VIP as Octavia answers it. Providers that have none
// answer it without an address.
type AdditionalVIP struct {
	SubnetID string `json:"subnet_id"`
	Address  string `json:"ip_address"`
}

// IsPending reports whether Octavia works on the load balancer, so that it takes no changes.
func (lb *LoadBalancer) IsPending() bool { return strings.HasPrefix(lb.Status, "PENDING_") }

// A Service of two families gets one load balancer with two VIPs on the same network: one
// of the first family, and an additional VIP of the second. Both lead to the same listeners.
// Pools for TCP have the Nodes' addresses of the first family only: an amphora connects
// by itself, whichever VIP a client came to. Pools for UDP and SCTP have those of both,
// as packets are passed on within their family.

// SecondAddress is that of the VIP of the other family than the first VIP's, "" for none.
func (lb *LoadBalancer) SecondAddress() string {
	first, err := netip.ParseAddr(lb.VIPAddress)
	for _, v := range lb.AdditionalVIPs {
		if a, aErr := netip.ParseAddr(v.Address); err == nil && aErr == nil && a.Is4() != first.Is4() {
			return v.Address
		}
	}
	return ""
}

func isIPv4(address string) bool {
	addr, err := netip.ParseAddr(address)
	return err == nil && addr.Is4()
}

// onlyFirst warns of why the second family is not served, if there is a reason. A Service that requires
// two is served by its first all the same, as it is by other controllers.
func (svc *Service) onlyFirst(reason string) []string {
	if reason == "" {
		return nil
	}
	return []string{"only " + string(svc.Spec.IPFamilies[0]) + " is served, not " + string(svc.Spec.IPFamilies[1]) + ": " + reason}
}

const restrictedReason = "Octavia restricts clients of one family only, and there are spec.loadBalancerSourceRanges"

// families decides by an existing load balancer whether the second family is served, or why not. VIPs
// are fixed at creation.
func (svc *Service) families(lb *LoadBalancer) (second bool, reason string, err error) {
	there, restricted := lb.SecondAddress() != "", family.Restrict(svc.Spec.SourceRanges)
	switch {
	case there && restricted && lb.Provider != config.ProviderOVN:
		// Octavia would try to make rules of one family for the other and end in ERROR.
		return false, "", cloud.Errorf(cloud.KindUnsupported, "load balancer %s has VIPs of both families, and %s: remove the ranges, or make the Service anew", lb.ID, restrictedReason)
	case !svc.TwoFamilies():
		return false, "", nil
	case there:
		return true, "", nil
	case restricted:
		return false, restrictedReason, nil
	case len(lb.AdditionalVIPs) > 0:
		return false, "load balancer provider " + lb.Provider + " gave load balancer " + lb.ID + " no second address", nil
	}
	return false, "load balancer " + lb.ID + " was made with one address, which is fixed at creation; make the Service anew", nil
}

// addresses are those of the VIPs, where the one of IPv4 is replaced by its floating IP. The
// first is the one to annotate.
func (d *Desired) addresses(lb *LoadBalancer, floating string) []string {
	out := []string{lb.VIPAddress}
	if s := lb.SecondAddress(); s != "" && d.Second {
		out = append(out, s)
	}
	for i, a := range out {
		if isIPv4(a) && floating != "" {
			out[i] = floating
		}
	}
	return out
}

// Status is what is published of a load balancer that is reached by the floating IP, "" for none.
func (d *Desired) Status(lb *LoadBalancer, floating string) *cloud.LoadBalancerStatus {
	s := d.Spec.Settings
	mode, suffix := corev1.LoadBalancerIPModeVIP, ""
	if s.String(AnnProxyProtocol, "false") != "false" {
		mode = corev1.LoadBalancerIPModeProxy
		if cfg := d.Config; cfg.EnableIngressHostname && len(validation.IsDNS1123Subdomain(cfg.IngressHostnameSuffix)) == 0 {
			suffix = cfg.IngressHostnameSuffix
		}
	}
	addresses := d.addresses(lb, floating)
	// By the floating IP it is found when the load balancer has gone.
	status := &cloud.LoadBalancerStatus{Annotations: map[string]string{AnnLoadBalancerID: lb.ID, AnnAddress: cmp.Or(floating, addresses[0])}}
	if hostname := s.String(AnnHostname, ""); hostname != "" {
		status.Ingress = []corev1.LoadBalancerIngress{{Hostname: hostname}}
		return status
	}
	for _, a := range addresses {
		in := corev1.LoadBalancerIngress{IP: a, IPMode: &mode}
		if suffix != "" {
			in = corev1.LoadBalancerIngress{Hostname: a + "." + suffix}
		}
		status.Ingress = append(status.Ingress, in)
	}
	return status
}
