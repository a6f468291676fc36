package doctor

import (
	"time"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/cloudsim/openstack/core"
)

// unknownID is nobody's.
const unknownID = "00000000-0000-4000-8000-00000000dead"

// faultsOfOpenStack are those that only OpenStack can have.
var faultsOfOpenStack = []fault{
	{name: "the floating network does not exist", only: "openstack", check: "cloud", object: "network " + unknownID, message: "floating-network-id in [LoadBalancer]", code: 1,
		conf: more("[LoadBalancer]\nfloating-network-id = " + unknownID)},
	{name: "the subnet of load balancers does not exist", only: "openstack", check: "cloud", object: "subnet " + unknownID, message: "subnet-id in [LoadBalancer]", code: 1,
		conf: more("[LoadBalancer]\nsubnet-id = " + unknownID)},
	{name: "the network of a class does not exist", only: "openstack", check: "cloud", object: "network " + unknownID, message: `[LoadBalancerClass "fast"]`, code: 1,
		conf: more("[LoadBalancerClass \"fast\"]\nnetwork-id = " + unknownID)},
	{name: "the flavor of load balancers does not exist", only: "openstack", check: "cloud", object: "flavor " + unknownID, message: "flavor-id in [LoadBalancer]", code: 1,
		conf: more("[LoadBalancer]\nflavor-id = " + unknownID)},
	{name: "no network has the name", only: "openstack", check: "cloud", object: "network nowhere", message: "public-network-name in [Networking]", code: 1,
		conf: more("[Networking]\npublic-network-name = nowhere")},
	{name: "the router of pod routes does not exist", only: "openstack", check: "cloud", object: "router " + unknownID, message: "router-id in [Route]", code: 1,
		conf: more("[Route]\nrouter-id = " + unknownID)},
	{name: "Octavia refuses the user", only: "openstack", check: "cloud", object: "load-balancer", message: "Services of type LoadBalancer are not served", code: 1,
		cluster: func(s *set) { s.refuse(s.t, "load-balancer", "/lbaas/loadbalancers") }},
	{name: "Nova refuses the user", only: "openstack", check: "cloud", object: "compute servers", message: "no Node is found", code: 1, cluster: func(s *set) { s.refuse(s.t, "compute", "/servers") }},
	{name: "Cinder refuses the user", only: "openstack", check: "cloud", object: "block-storage", message: "PersistentVolumes are not labeled", code: 0, cluster: func(s *set) { s.refuse(s.t, "volume", "") }},
	{name: "security groups may not be read", only: "openstack", check: "cloud", object: "network security-groups", message: "node ports are not opened", code: 1,
		conf: instead("[LoadBalancer]\n", "[LoadBalancer]\nmanage-security-groups = true\n"), cluster: func(s *set) { s.refuse(s.t, "network", "/security-groups") }},
	{name: "the floating network is not external", only: "openstack", check: "cloud", object: "network ", message: "it is no external network", code: 1, conf: func(s *set, conf string) string {
		d := s.OpenStack.Defaults()
		return instead("floating-network-id = "+d.ExternalNetworkID, "floating-network-id = "+d.NetworkID)(s, conf)
	}},
	{name: "the subnet is of another network", only: "openstack", check: "cloud", object: "subnet ", message: "and it is of network", code: 1, conf: func(s *set, conf string) string {
		return instead("[LoadBalancer]\n", "[LoadBalancer]\nnetwork-id = "+s.OpenStack.Defaults().ExternalNetworkID+"\n")(s, conf)
	}},
	{name: "the quota of floating IPs is used up", only: "openstack", check: "cloud", object: "quota floatingip", message: "5 of 5 are used", code: 0, cluster: func(s *set) {
		s.answer("network", "/quotas", `{"quota": {"floatingip": {"limit": 5, "used": 4, "reserved": 1}}}`)
	}},
	{name: "the quota of load balancers is used up", only: "openstack", check: "cloud", object: "quota load_balancer", message: "0 of 0 are used in Octavia", code: 0, cluster: func(s *set) {
		s.answer("load-balancer", "/lbaas/quotas", `{"quota": {"load_balancer": 0, "listener": -1, "pool": null, "member": 10}}`)
	}},
	{name: "the role may only read", only: "openstack", check: "cloud", object: "roles of the token", message: "they are reader", code: 0, conf: func(s *set, conf string) string {
		return instead(s.OpenStack.CloudConf(), s.OpenStack.CloudConfWith(s.OpenStack.AddApplicationCredential("reads", "reader")))(s, conf)
	}},
	{name: "the application credential expires in a week", only: "openstack", check: "cloud", object: "application credential ", message: "it expires at ", code: 0, conf: func(s *set, conf string) string {
		c := s.OpenStack.AddApplicationCredential("ends")
		s.OpenStack.ExpireApplicationCredential(c.ID, time.Now().Add(7*24*time.Hour))
		return instead(s.OpenStack.CloudConf(), s.OpenStack.CloudConfWith(c))(s, conf)
	}},
	{name: "the password expires in a week", only: "openstack", check: "cloud", object: "the password of user ", message: "it expires at ", code: 0, cluster: func(s *set) {
		s.OpenStack.ExpirePassword(ossim.UserName, time.Now().Add(7*24*time.Hour))
		s.t.Cleanup(func() { s.OpenStack.ExpirePassword(ossim.UserName, time.Time{}) })
	}},
}

// answer replaces the answers of a service below a path, until the test ends.
func (s *set) answer(service, path, body string) {
	s.t.Cleanup(s.OpenStack.AddFault(core.Fault{Service: service, Path: path, Body: body}))
}
