package openstack

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api"
)

// octaviaLB is a load balancer as Octavia answers it.
type octaviaLB struct {
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
	Listeners []octaviaID `json:"listeners"`
	Pools     []octaviaID `json:"pools"`
	// AdditionalVIPs are VIPs beside the first one.
	AdditionalVIPs []additionalVIP `json:"additional_vips"`
	// UpdatedAt changes whenever the load balancer or a child of it does, because each
	// change takes the load balancer through a PENDING state.
	UpdatedAt string `json:"updated_at"`
}

// octaviaListener is a listener as Octavia answers it.
type octaviaListener struct {
	ID             string            `json:"id"`
	Name           string            `json:"name"`
	Protocol       string            `json:"protocol"`
	Port           int               `json:"protocol_port"`
	Connections    int               `json:"connection_limit"`
	TimeoutClient  int               `json:"timeout_client_data"`
	TimeoutConnect int               `json:"timeout_member_connect"`
	TimeoutMember  int               `json:"timeout_member_data"`
	TimeoutInspect int               `json:"timeout_tcp_inspect"`
	TLSRef         string            `json:"default_tls_container_ref"`
	Headers        map[string]string `json:"insert_headers"`
	AllowedCIDRs   []string          `json:"allowed_cidrs"`
	Tags           []string          `json:"tags"`
	PoolID         string            `json:"default_pool_id"`
	LoadBalancers  []octaviaID       `json:"loadbalancers"`
}

// octaviaID is a reference.
type octaviaID struct {
	ID string `json:"id"`
}

// octaviaPool is a pool as Octavia answers it.
type octaviaPool struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Protocol    string `json:"protocol"`
	Method      string `json:"lb_algorithm"`
	Status      string `json:"provisioning_status"`
	Persistence *struct {
		Type string `json:"type"`
	} `json:"session_persistence"`
	MonitorID     string      `json:"healthmonitor_id"`
	Members       []octaviaID `json:"members"`
	Listeners     []octaviaID `json:"listeners"`
	LoadBalancers []octaviaID `json:"loadbalancers"`
}

// octaviaMonitor is a health monitor as Octavia answers it.
type octaviaMonitor struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	Type           string `json:"type"`
	Delay          int    `json:"delay"`
	Timeout        int    `json:"timeout"`
	MaxRetries     int    `json:"max_retries"`
	MaxRetriesDown int    `json:"max_retries_down"`
	Path           string `json:"url_path"`
	Method         string `json:"http_method"`
	Codes          string `json:"expected_codes"`
	Status         string `json:"provisioning_status"`
}

// octaviaMember is a member as Octavia answers it.
type octaviaMember struct {
	Name        string   `json:"name"`
	Address     string   `json:"address"`
	Port        int      `json:"protocol_port"`
	MonitorPort *int     `json:"monitor_port"`
	Weight      *int     `json:"weight"`
	AdminUp     *bool    `json:"admin_state_up"`
	Backup      bool     `json:"backup"`
	SubnetID    string   `json:"subnet_id"`
	Tags        []string `json:"tags"`
}

const forwardedForHeader = "X-Forwarded-For"

// readTree reads all children of a load balancer: 2 calls, one for each pool that has
// members and one for each monitor.
func readTree(ctx context.Context, sc *gophercloud.ServiceClient, lbID string) (*lbTree, error) {
	listeners, err := readListeners(ctx, sc, lbID)
	if err != nil {
		return nil, err
	}
	pools, err := readPools(ctx, sc, lbID)
	if err != nil {
		return nil, err
	}
	t := &lbTree{}
	byID := map[string]*lbPool{}
	for _, p := range pools {
		node, err := readPool(ctx, sc, p)
		if err != nil {
			return nil, err
		}
		t.Pools = append(t.Pools, node)
		byID[p.ID] = node
	}
	for _, l := range listeners {
		t.Listeners = append(t.Listeners, l.node(byID))
	}
	return t, nil
}

func readListeners(ctx context.Context, sc *gophercloud.ServiceClient, lbID string) ([]octaviaListener, error) {
	listeners, err := api.ListAll[octaviaListener](ctx, sc, "lbaas/listeners", url.Values{"loadbalancer_id": {lbID}}, "listeners")
	return listeners, api.WrapError("list listeners of load balancer "+lbID, err)
}

func readPools(ctx context.Context, sc *gophercloud.ServiceClient, lbID string) ([]octaviaPool, error) {
	pools, err := api.ListAll[octaviaPool](ctx, sc, "lbaas/pools", url.Values{"loadbalancer_id": {lbID}}, "pools")
	return pools, api.WrapError("list pools of load balancer "+lbID, err)
}

func (l *octaviaListener) node(pools map[string]*lbPool) *lbListener {
	n := &lbListener{
		ID: l.ID, Name: l.Name, Protocol: l.Protocol, Port: l.Port, Connections: l.Connections,
		Timeouts:     &lbTimeouts{Client: l.TimeoutClient, Connect: l.TimeoutConnect, Member: l.TimeoutMember, Inspect: l.TimeoutInspect},
		TLSRef:       l.TLSRef,
		ForwardedFor: strings.EqualFold(l.Headers[forwardedForHeader], "true"),
		Headers:      l.Headers,
		AllowedCIDRs: normalCIDRs(l.AllowedCIDRs),
		Tags:         l.Tags,
		Pool:         pools[l.PoolID],
	}
	if n.AllowedCIDRs == nil {
		n.Everyone = l.AllowedCIDRs
	}
	return n
}

// normalCIDRs sorts the clients that are let in; those that include everyone are the same
// as none, which is how other controllers write it.
func normalCIDRs(cidrs []string) []string {
	if len(cidrs) == 0 || slices.Contains(cidrs, "0.0.0.0/0") || slices.Contains(cidrs, "::/0") {
		return nil
	}
	return slices.Sorted(slices.Values(cidrs))
}

func readPool(ctx context.Context, sc *gophercloud.ServiceClient, p octaviaPool) (*lbPool, error) {
	n := p.node()
	var err error
	if n.Members, err = readMembers(ctx, sc, p); err != nil {
		return nil, err
	}
	if p.MonitorID == "" {
		return n, nil
	}
	var answer struct {
		Monitor *octaviaMonitor `json:"healthmonitor"`
	}
	r := monitors.Get(ctx, sc, p.MonitorID)
	if r.Err != nil {
		return nil, api.WrapError("get health monitor "+p.MonitorID, r.Err)
	}
	if err := r.ExtractInto(&answer); err != nil || answer.Monitor == nil {
		return nil, fmt.Errorf("get health monitor %s: the answer is malformed: %w", p.MonitorID, err)
	}
	n.Monitor = answer.Monitor.node()
	return n, nil
}

// node is the pool without members and monitor.
func (p *octaviaPool) node() *lbPool {
	n := &lbPool{ID: p.ID, Name: p.Name, Protocol: p.Protocol, Method: p.Method, Status: p.Status, Used: len(p.Listeners) > 0}
	n.ByClientIP = p.Persistence != nil && p.Persistence.Type == persistenceSourceIP
	return n
}

func (m *octaviaMonitor) node() *lbMonitor {
	n := &lbMonitor{ID: m.ID, Name: m.Name, Type: m.Type, Delay: m.Delay, Timeout: m.Timeout,
		MaxRetries: m.MaxRetries, MaxRetriesDown: m.MaxRetriesDown, Status: m.Status}
	if m.Type == monitorHTTP {
		n.Path, n.Method, n.Codes = m.Path, m.Method, m.Codes
	}
	return n
}

// readMembers reads a pool's members, if it has any.
func readMembers(ctx context.Context, sc *gophercloud.ServiceClient, p octaviaPool) ([]lbMember, error) {
	if len(p.Members) == 0 {
		return nil, nil
	}
	return listMembers(ctx, sc, p.ID)
}

func listMembers(ctx context.Context, sc *gophercloud.ServiceClient, poolID string) ([]lbMember, error) {
	members, err := api.ListAll[octaviaMember](ctx, sc, "lbaas/pools/"+poolID+"/members", nil, "members")
	if err != nil {
		return nil, api.WrapError("list members of pool "+poolID, err)
	}
	var out []lbMember
	for _, m := range members {
		out = append(out, m.node())
	}
	sortMembers(out)
	return out, nil
}

func (m *octaviaMember) node() lbMember {
	n := lbMember{Name: m.Name, Address: m.Address, Port: m.Port, Weight: m.Weight, Backup: m.Backup, SubnetID: m.SubnetID, Tags: m.Tags}
	if m.MonitorPort != nil {
		n.MonitorPort = *m.MonitorPort
	}
	n.Disabled = m.AdminUp != nil && !*m.AdminUp
	return n
}
