package openstack_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

const (
	netAPI   = "/network/v2.0"
	lbAPI    = "/load-balancer/v2/lbaas"
	someUUID = "5b3d4cd2-0000-0000-0000-000000000000"
)

// neutronError is Neutron's error body.
func neutronError(kind, message string) string {
	return `{"NeutronError": {"type": "` + kind + `", "message": "` + message + `", "detail": ""}}`
}

// octaviaFault is Octavia's error body.
func octaviaFault(code, message string) string {
	return `{"faultcode": "` + code + `", "faultstring": "` + message + `", "debuginfo": null}`
}

// zedNetwork holds refusals of a real Zed's Neutron and Octavia, word by word.
func zedNetwork() []exchange {
	router := netAPI + "/routers/{router}"
	routes := func(dst, hop string) string {
		return `{"router":{"routes":[{"destination":"` + dst + `","nexthop":"` + hop + `"}]}}`
	}
	listener := func(more string) string {
		return `{"listener":{"loadbalancer_id":"{lb}","protocol_port":80,` + more + `}}`
	}
	return []exchange{
		{name: "network", method: "GET", path: netAPI + "/networks/nope", status: 404, want: neutronError("NetworkNotFound", "Network nope could not be found.")},
		{name: "router", method: "GET", path: netAPI + "/routers/nope", status: 404, want: neutronError("RouterNotFound", "Router nope could not be found")},
		{name: "floating IP", method: "GET", path: netAPI + "/floatingips/nope", status: 404, want: neutronError("FloatingIPNotFound", "Floating IP nope could not be found")},
		{name: "group", method: "DELETE", path: netAPI + "/security-groups/nope", status: 404, want: neutronError("SecurityGroupNotFound", "Security group nope does not exist")},
		{name: "route of no service", method: "GET", path: netAPI + "/nope", status: 404, want: neutronError("HTTPNotFound", "The resource could not be found.")},
		{name: "method", method: "PATCH", path: netAPI + "/ports/x", status: 405,
			want: neutronError("HTTPMethodNotAllowed", "The server could not comply with the request since it is either malformed or otherwise incorrect.")},
		{name: "limit", method: "GET", path: netAPI + "/ports?limit=abc", status: 400, want: neutronError("BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not 'abc'.")},
		{name: "marker", method: "GET", path: netAPI + "/ports?limit=1&marker=nope", status: 404, want: neutronError("PortNotFound", "Port nope could not be found.")},
		{name: "boolean filter", method: "GET", path: netAPI + "/networks?router:external=foo", status: 400, want: neutronError("InvalidInput", "Invalid input for operation: 'foo' cannot be converted to boolean.")},
		{name: "unknown attribute", method: "POST", path: netAPI + "/networks", body: `{"network":{"bogus":1}}`, status: 400, want: neutronError("HTTPBadRequest", "Unrecognized attribute(s) 'bogus'")},
		{name: "no JSON", method: "POST", path: netAPI + "/networks", body: `{bad`, status: 400, want: neutronError("HTTPBadRequest", "Body contains invalid data")},
		{name: "required attribute", method: "POST", path: netAPI + "/ports", body: `{"port":{}}`, status: 400,
			want: neutronError("HTTPBadRequest", "Failed to parse request. Required attribute 'network_id' not specified")},
		{name: "read-only attribute", method: "PUT", path: netAPI + "/ports/{port}", body: `{"port":{"network_id":"{net}"}}`, status: 400,
			want: neutronError("HTTPBadRequest", "Cannot update read-only attribute network_id")},
		{name: "external network of a tenant", method: "POST", path: netAPI + "/networks", body: `{"network":{"router:external":true}}`, status: 403,
			want: neutronError("PolicyNotAuthorized", "(rule:create_network and rule:create_network:router:external) is disallowed by policy")},
		{name: "chosen floating address of a tenant", method: "POST", path: netAPI + "/floatingips", body: `{"floatingip":{"floating_network_id":"{ext}","floating_ip_address":"10.2.3.4"}}`, status: 403,
			want: neutronError("PolicyNotAuthorized", "(rule:create_floatingip and rule:create_floatingip:floating_ip_address) is disallowed by policy")},
		{name: "address outside", method: "POST", path: netAPI + "/ports", body: `{"port":{"network_id":"{net}","fixed_ips":[{"ip_address":"10.9.9.9"}]}}`, status: 400,
			want: neutronError("InvalidIpForNetwork", "IP address 10.9.9.9 is not a valid IP for any of the subnets on the specified network.")},
		{name: "pairs twice", method: "PUT", path: netAPI + "/ports/{port}", status: 400,
			body: `{"port":{"allowed_address_pairs":[{"ip_address":"10.100.0.0/24"},{"ip_address":"10.100.0.0/24"}]}}`,
			want: neutronError("DuplicateAddressPairInRequest", "Request contains duplicate address pair: mac_address None ip_address 10.100.0.0/24.")},
		{name: "route not connected", method: "PUT", path: router, body: routes("10.100.0.0/24", "10.99.0.50"), status: 400,
			want: neutronError("InvalidRoutes", "Invalid format for routes: [{'destination': '10.100.0.0/24', 'nexthop': '10.99.0.50'}], the nexthop is not connected with router")},
		{name: "route to itself", method: "PUT", path: router, body: routes("10.100.0.0/24", "{gateway}"), status: 400,
			want: neutronError("InvalidRoutes", "Invalid format for routes: [{'destination': '10.100.0.0/24', 'nexthop': '{gateway}'}], the nexthop is used by router")},
		{name: "route with host bits", method: "PUT", path: router, body: routes("10.100.0.5/24", "{gateway}"), status: 400,
			want: neutronError("HTTPBadRequest", "Invalid input for routes. Reason: '10.100.0.5/24' is not a recognized CIDR, '10.100.0.0/24' is recommended.")},
		{name: "routes of no list", method: "PUT", path: router + "/add_extraroutes", body: `{"router":{"routes":"x"}}`, status: 500,
			want: neutronError("HTTPInternalServerError", "Request Failed: internal server error while processing your request.")},
		{name: "interface twice", method: "PUT", path: router + "/add_router_interface", body: `{"subnet_id":"{subnet}"}`, status: 400,
			want: neutronError("BadRequest", "Bad router request: Router already has a port on subnet {subnet}.")},
		{name: "network in use", method: "DELETE", path: netAPI + "/subnets/{subnet}", status: 409,
			want: neutronError("SubnetInUse", "Unable to complete operation on subnet {subnet}: One or more ports have an IP allocation from this subnet.")},
		{name: "default group", method: "POST", path: netAPI + "/security-groups", body: `{"security_group":{"name":"default"}}`, status: 409,
			want: neutronError("SecurityGroupDefaultAlreadyExists", "Default security group already exists.")},
		{name: "ports without protocol", method: "POST", path: netAPI + "/security-group-rules", status: 400,
			body: `{"security_group_rule":{"security_group_id":"{group}","direction":"ingress","port_range_min":81,"port_range_max":81}}`,
			want: neutronError("SecurityGroupProtocolRequiredWithPorts", "Must also specify protocol if port range is given.")},
		{name: "tag", method: "DELETE", path: netAPI + "/ports/{port}/tags/z", status: 404, want: neutronError("TagNotFound", "Tag z could not be found.")},

		{name: "VIP nowhere", method: "POST", path: lbAPI + "/loadbalancers", body: `{"loadbalancer":{}}`, status: 400,
			want: octaviaFault("Client", "Validation failure: VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.")},
		{name: "unknown provider", method: "POST", path: lbAPI + "/loadbalancers", body: `{"loadbalancer":{"vip_subnet_id":"{subnet}","provider":"nope"}}`, status: 400,
			want: octaviaFault("Client", "Provider 'nope' is not enabled.")},
		{name: "unknown subnet", method: "POST", path: lbAPI + "/loadbalancers", body: `{"loadbalancer":{"vip_subnet_id":"` + someUUID + `"}}`, status: 400,
			want: octaviaFault("Client", "Subnet "+someUUID+" not found.")},
		{name: "unknown flavor", method: "POST", path: lbAPI + "/loadbalancers", body: `{"loadbalancer":{"vip_subnet_id":"{subnet}","flavor_id":"` + someUUID + `"}}`, status: 400,
			want: octaviaFault("Client", "Validation failure: Invalid flavor_id.")},
		{name: "unknown attribute of a nested listener", method: "POST", path: lbAPI + "/loadbalancers", status: 400,
			body: `{"loadbalancer":{"vip_subnet_id":"{subnet}","listeners":[{"protocol":"TCP","protocol_port":80,"bogus":1}]}}`,
			want: octaviaFault("Client", "Unknown attribute for argument load_balancer.loadbalancer.listeners: bogus")},
		{name: "unnamed pool", method: "POST", path: lbAPI + "/loadbalancers", status: 400,
			body: `{"loadbalancer":{"vip_subnet_id":"{subnet}","listeners":[{"protocol":"TCP","protocol_port":80,"default_pool":{"protocol":"TCP","lb_algorithm":"ROUND_ROBIN"}}]}}`,
			want: octaviaFault("Client", "Validation failure: Pools must be named when creating a fully populated loadbalancer.")},
		{name: "load balancer", method: "GET", path: lbAPI + "/loadbalancers/nope", status: 404, want: octaviaFault("Client", "Load Balancer nope not found.")},
		{name: "monitor", method: "GET", path: lbAPI + "/healthmonitors/nope", status: 404, want: octaviaFault("Client", "Health Monitor nope not found.")},
		{name: "filter", method: "GET", path: lbAPI + "/loadbalancers?bogus=1", status: 400, want: octaviaFault("Client", "One or more arguments are either duplicate or invalid")},
		{name: "protocol missing", method: "POST", path: lbAPI + "/listeners", body: listener(`"name":"x"`), status: 400,
			want: octaviaFault("Client", "Invalid input for field/attribute protocol. Value: 'None'. Mandatory field missing.")},
		{name: "protocol", method: "POST", path: lbAPI + "/listeners", body: listener(`"protocol":"FOO"`), status: 400,
			want: octaviaFault("Client", "Invalid input for field/attribute protocol. Value: 'FOO'. Value should be one of: SCTP, TERMINATED_HTTPS, HTTP, PROMETHEUS, HTTPS, TCP, UDP")},
		{name: "certificate missing", method: "POST", path: lbAPI + "/listeners", body: listener(`"protocol":"TERMINATED_HTTPS"`), status: 400,
			want: octaviaFault("Client", "Validation failure: An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.")},
		{name: "headers for TCP", method: "POST", path: lbAPI + "/listeners", body: listener(`"protocol":"TCP","insert_headers":{"X-Forwarded-For":"true"}`), status: 400,
			want: octaviaFault("Client", "insert-headers is not a valid option for a TCP protocol listener.")},
		{name: "CIDR", method: "POST", path: lbAPI + "/listeners", body: listener(`"protocol":"TCP","allowed_cidrs":["foo"]`), status: 400,
			want: octaviaFault("Client", "Invalid input for field/attribute allowed_cidrs. Value: '['foo']'. Value should be IPv4 or IPv6 CIDR format")},
		{name: "nested pool outside of a full create", method: "POST", path: lbAPI + "/listeners", status: 500,
			body: listener(`"protocol":"TCP","default_pool":{"name":"p","protocol":"TCP","lb_algorithm":"ROUND_ROBIN"}`),
			want: octaviaFault("Server", "'dict' object has no attribute '_sa_instance_state'")},
		{name: "pool nowhere", method: "POST", path: lbAPI + "/pools", body: `{"pool":{"protocol":"TCP","lb_algorithm":"ROUND_ROBIN"}}`, status: 400,
			want: octaviaFault("Client", "Validation failure: Must provide at least one of: loadbalancer_id, listener_id")},
		{name: "persistence timeout", method: "POST", path: lbAPI + "/pools", status: 400,
			body: `{"pool":{"loadbalancer_id":"{lb}","protocol":"TCP","lb_algorithm":"ROUND_ROBIN","session_persistence":{"type":"SOURCE_IP","persistence_timeout":5}}}`,
			want: octaviaFault("Client", "Validation failure: persistence_timeout and persistence_granularity is only for UDP and SCTP protocol pools.")},
		{name: "provider of a load balancer", method: "PUT", path: lbAPI + "/loadbalancers/{lb}", body: `{"loadbalancer":{"provider":"ovn"}}`, status: 400,
			want: octaviaFault("Client", "Unknown attribute for argument load_balancer.loadbalancer: provider")},
	}
}

// TestNetworkRefusesAsZed compares refusals with those of a real Zed.
func TestNetworkRefusesAsZed(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	client := login(t, sim, password(sim))
	d := sim.Defaults()
	lb := createLB(t, octavia(t, sim), loadbalancers.CreateOpts{Name: "lb", VipSubnetID: d.SubnetID})
	gateway := fmt.Sprintf("127.%d.0.1", sim.Net())
	ids := strings.NewReplacer("{net}", d.NetworkID, "{subnet}", d.SubnetID, "{ext}", d.ExternalNetworkID, "{router}", d.RouterID,
		"{group}", d.SecurityGroupID, "{port}", lb.VipPortID, "{lb}", lb.ID, "{gateway}", gateway)
	before := sim.Snapshot()
	for _, tt := range zedNetwork() {
		t.Run(tt.name, func(t *testing.T) {
			req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), tt.method, sim.URL()+ids.Replace(tt.path), strings.NewReader(ids.Replace(tt.body))))
			req.Header.Set("X-Auth-Token", client.Token())
			resp := must[*http.Response](t)(client.HTTPClient.Do(req))
			body := must[[]byte](t)(io.ReadAll(resp.Body))
			_ = resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			compareBody(t, ids.Replace(tt.want), string(body))
		})
	}
	if after := sim.Snapshot(); len(after.Ports) != len(before.Ports) || len(after.Listeners)+len(after.Pools) != 0 {
		t.Errorf("refused calls changed the cloud: %+v", after)
	}
}

func TestForeignLoadBalancer(t *testing.T) {
	sim := ossim.ForTest(t, ossim.Options{Jobboard: true, OctaviaDelay: -1})
	c := octavia(t, sim)
	added, err := sim.AddLoadBalancer(ossim.LoadBalancer{Name: "theirs", Tags: []string{"x"}, Listeners: []ossim.Listener{{Name: "l", Protocol: "TCP", Port: 8080, Tags: []string{"y"}}}})
	if err != nil {
		t.Fatal(err)
	}
	lb := settled(t, c, added.ID)
	if lb.Name != "theirs" || lb.ProvisioningStatus != "ACTIVE" || len(lb.Listeners) != 1 || lb.VipAddress != added.VIP.String() {
		t.Errorf("load balancer %+v", lb)
	}
	if !sim.SetProvisioningStatus(lb.ID, "PENDING_UPDATE") {
		t.Error("no such load balancer")
	}
	refused(t, loadbalancers.Delete(t.Context(), c, lb.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(), http.StatusConflict)
	if !sim.DeleteLoadBalancer(lb.ID) || sim.DeleteLoadBalancer(lb.ID) {
		t.Error("deletion past the API")
	}
	if got := sim.LoadBalancers(); len(got) != 0 {
		t.Errorf("left: %+v", got)
	}
}
