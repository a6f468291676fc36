package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb/family"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Protocols, monitor types and states as Octavia writes them.
const (
	ProtoTCP     = "TCP"
	ProtoUDP     = "UDP"
	ProtoSCTP    = "SCTP"
	ProtoHTTP    = "HTTP"
	ProtoTLS     = "TERMINATED_HTTPS"
	ProtoProxy   = "PROXY"
	ProtoProxyV2 = "PROXYV2"

	PersistenceSourceIP = "SOURCE_IP"

	MonitorTCP  = "TCP"
	MonitorUDP  = "UDP-CONNECT"
	MonitorSCTP = "SCTP"
	MonitorHTTP = "HTTP"

	StateActive        = "ACTIVE"
	StateError         = "ERROR"
	StatePendingCreate = "PENDING_CREATE"
)

// What is Isthmus's of a load balancer, and is put right when others change it: listeners,
// pools, members by address and port, monitors, and of these the fields below. What operators
// use to drain and tune stays as they set it: weights, backup members, every admin_state_up,
// names and descriptions of children, foreign tags and headers.

// Tree is what a load balancer consists of: as it is, or as far as ours as it shall be.
// A listener's pool is one of Pools.
type Tree struct {
	Listeners []*Listener
	Pools     []*Pool
}

// Size counts what makes a tree big: members and source ranges.
func (t *Tree) Size() (n int) {
	for _, l := range t.Listeners {
		n += len(l.AllowedCIDRs) + len(l.Pool.Members)
	}
	return n
}

// HasAll reports whether the tree has all of these listeners and pools.
func (t *Tree) HasAll(children ...Ref) bool {
	has := map[string]bool{}
	for _, l := range t.Listeners {
		has[l.ID] = true
	}
	for _, p := range t.Pools {
		has[p.ID] = true
	}
	return !slices.ContainsFunc(children, func(c Ref) bool { return !has[c.ID] })
}

// Listener is a listener. Only what Isthmus manages is in it. Tags of JSON are where Octavia says the same.
type Listener struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Protocol     string    `json:"protocol"`
	Port         int       `json:"protocol_port"`
	Connections  int       `json:"connection_limit"`
	Timeouts     *Timeouts `json:"-"` // nil where the provider has none
	TLSRef       string    `json:"default_tls_container_ref"`
	ForwardedFor bool      `json:"-"`
	AllowedCIDRs []string  `json:"allowed_cidrs"` // sorted; nil lets everyone in
	Everyone     []string  `json:"-"`             // how that is written where AllowedCIDRs is nil; nil is the cloud's own way
	Tags         []string  `json:"tags"`
	Pool         *Pool     `json:"-"`
	// Headers are all inserted headers as they are, so that an update keeps foreign ones.
	Headers map[string]string `json:"insert_headers"`
}

// Timeouts are a listener's timeouts in ms.
type Timeouts struct {
	Client  int `json:"timeout_client_data"`
	Connect int `json:"timeout_member_connect"`
	Member  int `json:"timeout_member_data"`
	Inspect int `json:"timeout_tcp_inspect"`
}

// Pool is a pool with its members and monitor.
type Pool struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Protocol   string   `json:"protocol"`
	Method     string   `json:"lb_algorithm"`
	ByClientIP bool     `json:"-"` // session persistence SOURCE_IP
	Members    []Member `json:"-"`
	Monitor    *Monitor `json:"-"`
	// Implied says of a wish that nobody asks for its monitor but policy Local.
	Implied bool `json:"-"`

	// KeepMethod is, in a wish, another algorithm that a pool may keep, or anyMethod.
	KeepMethod string `json:"-"`
	// Thin says that of the members only names, addresses and ports are known.
	Thin bool `json:"-"`
	// Status is the provisioning status as read.
	Status string `json:"provisioning_status"`
	// Used says that a listener or an L7 policy refers to the pool.
	Used bool `json:"-"`
}

// Member is a member. From Weight on, fields are never wishes: they are kept as they are.
type Member struct {
	Name        string `json:"name"`
	Address     string `json:"address"`
	Port        int    `json:"protocol_port"`
	MonitorPort int    `json:"monitor_port"` // 0 for Port

	// ClearMonitorPort says that the member has a monitor port which it shall lose.
	ClearMonitorPort bool `json:"-"`

	Weight   *int `json:"weight"`
	Disabled bool `json:"-"`
	Backup   bool `json:"backup"`
	// SubnetID is a wish only where the configuration names the members' subnet.
	SubnetID string   `json:"subnet_id"`
	Tags     []string `json:"tags"`
}

// Monitor is a pool's health monitor; times are in seconds.
type Monitor struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Type           string `json:"type"`
	Delay          int    `json:"delay"`
	Timeout        int    `json:"timeout"`
	MaxRetries     int    `json:"max_retries"`
	MaxRetriesDown int    `json:"max_retries_down"`
	// Path, Method and Codes are empty but of HTTP monitors.
	Path   string `json:"url_path"`
	Method string `json:"http_method"`
	Codes  string `json:"expected_codes"`

	// Status is the provisioning status as read.
	Status string `json:"provisioning_status"`
}

// ListenerKey is what only one listener of a load balancer can have.
type ListenerKey struct {
	transport string
	port      int
}

// Key is what only one listener of the load balancer can have.
func (l *Listener) Key() ListenerKey {
	k := ListenerKey{transport: ProtoTCP, port: l.Port}
	if l.Protocol == ProtoUDP || l.Protocol == ProtoSCTP {
		k.transport = l.Protocol
	}
	return k
}

// keyOf is the key of the listener that a Service's port has.
func keyOf(p cloud.LoadBalancerPort) ListenerKey {
	return (&Listener{Protocol: string(p.Protocol), Port: int(p.Port)}).Key()
}

// Endpoint is the member's address and port.
func (m Member) Endpoint() netip.AddrPort {
	addr, _ := netip.ParseAddr(m.Address) // the zero address for what Octavia could not have sent
	return netip.AddrPortFrom(addr, uint16(m.Port))
}

// SortMembers puts members into the order in which trees have them.
func SortMembers(members []Member) {
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(a.Endpoint().Compare(b.Endpoint()), cmp.Compare(a.Name, b.Name))
	})
}

// Clone copies the tree deeply enough that changing the copy's nodes leaves t as it is.
func (t *Tree) Clone() *Tree {
	pools := map[*Pool]*Pool{}
	out := &Tree{}
	for _, p := range t.Pools {
		c := *p
		c.Members = slices.Clone(p.Members)
		if p.Monitor != nil {
			m := *p.Monitor
			c.Monitor = &m
		}
		pools[p] = &c
		out.Pools = append(out.Pools, &c)
	}
	for _, l := range t.Listeners {
		c := *l
		c.Pool = pools[l.Pool]
		out.Listeners = append(out.Listeners, &c)
	}
	return out
}

// NormalCIDRs sorts the clients that are let in; those that include everyone are the same
// as none, which is how other controllers write it.
func NormalCIDRs(cidrs []string) []string {
	if len(cidrs) == 0 || slices.Contains(cidrs, "0.0.0.0/0") || slices.Contains(cidrs, "::/0") {
		return nil
	}
	return slices.Sorted(slices.Values(cidrs))
}

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
	// CreatedAt is of the same form.
	CreatedAt string `json:"created_at"`
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
	addresses := []string{lb.VIPAddress}
	if second := lb.SecondAddress(); second != "" && d.Second {
		addresses = append(addresses, second)
	}
	for i, a := range addresses { // the one of IPv4 is reached by its floating IP
		if isIPv4(a) && floating != "" {
			addresses[i] = floating
		}
	}
	// By the floating IP it is found when the load balancer has gone.
	status := &cloud.LoadBalancerStatus{ID: lb.ID, Annotations: map[string]string{AnnLoadBalancerID: lb.ID, AnnAddress: cmp.Or(floating, addresses[0])}}
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
