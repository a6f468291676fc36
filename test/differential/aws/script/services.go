package script

import (
	"fmt"

	"github.com/isthmus-cloud/isthmus/test/differential/steps"
)

// prefix is that of the annotations.
const prefix = steps.Prefix("service.beta.kubernetes.io/aws-load-balancer-")

// Certificates of nobody: AWS does not look at them before it serves.
const (
	certificate = "arn:aws:acm:eu-central-1:111122223333:certificate/one"
	another     = "arn:aws:acm:eu-central-1:111122223333:certificate/two"
)

// notes are annotations without the prefix.
type notes = map[string]string

// patch is a step that patches the Service.
func patch(text string) Step { return service(steps.Step{Patch: text}) }

// annotate is a step that sets annotations.
func annotate(a notes) Step { return patch(prefix.Set(a)) }

// remove is a step that takes annotations away.
func remove(names ...string) Step { return patch(prefix.Remove(names...)) }

// addPort is a step that adds TCP 443.
func addPort() Step { return patch(steps.AddPort) }

// Patches of Services.
const (
	local    = `{"spec":{"externalTrafficPolicy":"Local","healthCheckNodePort":{health}}}`
	global   = `{"spec":{"externalTrafficPolicy":"Cluster","healthCheckNodePort":null}}`
	twoPorts = `{"spec":{"ports":[{"name":"http","port":80,"nodePort":{port+0}},{"name":"https","port":443,"nodePort":{port+1}}]}}`
	udp      = `{"spec":{"ports":[{"name":"p0","port":53,"protocol":"UDP","nodePort":{port+0}}]}}`
	mixed    = `{"spec":{"ports":[{"name":"p0","port":53,"protocol":"UDP","nodePort":{port+0}},{"name":"p1","port":53,"nodePort":{port+1}}]}}`
	ranges   = `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8","192.168.0.0/16"]}}`
)

// company makes scenarios of a Service each, all of one type of load balancer.
type company struct {
	prefix    string
	base      notes
	scenarios []Scenario
}

// with adds one whose Service is patched.
func (c *company) with(name, patch string, a notes, s ...Step) {
	all := prefix.All(c.base)
	for k, v := range prefix.All(a) {
		all[k] = v
	}
	c.scenarios = append(c.scenarios, Scenario{Name: c.prefix + name, Services: []steps.Service{{Annotations: all, Patch: patch}}, Steps: s})
}

// one adds one with annotations.
func (c *company) one(name string, a notes, s ...Step) { c.with(name, "", a, s...) }

// values adds one for each annotation that sets valid values one after the other, and then none; with a patch of the Service and
// annotations beside it.
func (c *company) values(name, patch string, beside notes, annotation string, valid ...string) {
	first := notes{annotation: valid[0]}
	for k, v := range beside {
		first[k] = v
	}
	var all []Step
	for _, v := range valid[1:] {
		all = append(all, annotate(notes{annotation: v}))
	}
	c.with(name, patch, first, append(all, remove(annotation))...)
}

// odds adds one for each odd value; then a port is added.
func (c *company) odds(name, annotation string, odd ...string) {
	for i, v := range odd {
		c.one(fmt.Sprintf("%s-odd-%d", name, i), notes{annotation: v}, addPort())
	}
}

// later adds one that gets the annotations later.
func (c *company) later(name, patch string, a notes) { c.with(name+"-later", patch, nil, annotate(a)) }

// spec adds what a Service's spec can say.
func (c *company) spec() {
	c.one("plain", nil, addPort(), patch(`{"spec":{"ports":[{"name":"p1","port":443,"nodePort":{port+1}}]}}`))
	c.with("nodeport", "", nil, patch(`{"spec":{"ports":[{"name":"p0","port":80,"nodePort":{port+5}}]}}`))
	c.with("port", "", nil, patch(`{"spec":{"ports":[{"name":"p0","port":8080,"nodePort":{port+0}}]}}`))
	c.with("protocol", "", nil, patch(`{"spec":{"ports":[{"name":"p0","port":80,"protocol":"UDP","nodePort":{port+0}}]}}`))
	c.with("udp", udp, nil)
	c.with("mixed", mixed, nil, patch(udp))
	c.with("local", local, nil, addPort(), patch(global))
	c.with("local-later", "", nil, patch(local))
	c.with("affinity", `{"spec":{"sessionAffinity":"ClientIP"}}`, nil, patch(`{"spec":{"sessionAffinity":"None"}}`))
	c.with("affinity-later", "", nil, patch(`{"spec":{"sessionAffinity":"ClientIP"}}`))
	c.with("ip", `{"spec":{"loadBalancerIP":"10.0.0.77"}}`, nil, patch(`{"spec":{"loadBalancerIP":null}}`))
	c.with("ranges", ranges, nil, patch(`{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`), patch(`{"spec":{"loadBalancerSourceRanges":null}}`))
	c.with("ranges-later", "", nil, patch(ranges))
	c.with("ranges-annotation", "", notes{"service.beta.kubernetes.io/load-balancer-source-ranges": "10.0.0.0/8,10.1.0.0/16"},
		annotate(notes{"service.beta.kubernetes.io/load-balancer-source-ranges": "10.1.0.0/16"}))
	c.with("ranges-6", `{"spec":{"loadBalancerSourceRanges":["2001:db8::/32"]}}`, nil)
	c.with("class", `{"spec":{"loadBalancerClass":"example.org/other"}}`, nil)
	c.with("type", "", nil, patch(`{"spec":{"type":"ClusterIP","ports":[{"name":"p0","port":80,"nodePort":null}]}}`))
	c.with("no-nodeport", `{"spec":{"allocateLoadBalancerNodePorts":false,"ports":[{"name":"p0","port":80,"nodePort":null}]}}`, nil)
	c.with("dual-stack", `{"spec":{"ipFamilyPolicy":"PreferDualStack"}}`, nil)
	c.with("ipv6", `{"spec":{"ipFamilyPolicy":"SingleStack","ipFamilies":["IPv6"]}}`, nil)
	c.one("gone", nil, service(steps.Step{Delete: true}))
	c.one("nothing", nil, annotate(notes{"example.org/note": "changed"}))
}

// common adds the annotations that both types have.
func (c *company) common() {
	c.values("internal", "", nil, "internal", "true", "false")
	c.one("internal-later", nil, annotate(notes{"internal": "true"}))
	c.odds("internal", "internal", "", "false", "0.0.0.0/0")
	c.values("subnets", "", nil, "subnets", PublicA, PublicA+","+PublicB)
	c.values("subnets-names", "", nil, "subnets", "public-a,public-b", "public-b, public-a")
	c.one("subnets-internal", notes{"internal": "true", "subnets": PrivateB})
	c.one("subnets-private", notes{"subnets": PrivateA})
	c.odds("subnets", "subnets", "", "nothing", PublicA+","+PublicA, PublicA+",private-a")
	c.values("tags", "", nil, "additional-resource-tags", "a=b,c=d", "a=e", "c=")
	c.odds("tags", "additional-resource-tags", "", "a", "a=b=c", "kubernetes.io/service-name=mine")
	c.values("labels", "", nil, "target-node-labels", "zone=a", "zone=b", "disk=", "zone=c")
	c.odds("labels", "target-node-labels", "", "zone", "zone=a,disk=fast")
	c.values("cross-zone", "", nil, "cross-zone-load-balancing-enabled", "true", "false")
	c.odds("cross-zone", "cross-zone-load-balancing-enabled", "", "yes", "T")
	logs := notes{"access-log-s3-bucket-name": "bucket", "access-log-s3-bucket-prefix": "prefix"}
	c.values("logs", "", logs, "access-log-enabled", "true", "false")
	c.one("logs-no-bucket", notes{"access-log-enabled": "true"}, addPort())
	c.odds("logs", "access-log-enabled", "", "yes")
	c.values("check-protocol", "", nil, "healthcheck-protocol", "http", "TCP", "HTTPS")
	c.odds("check-protocol", "healthcheck-protocol", "", "SSL", "nothing")
	c.values("check-port", "", nil, "healthcheck-port", "8080", "traffic-port")
	c.odds("check-port", "healthcheck-port", "", "http", "0")
	c.values("check-path", "", notes{"healthcheck-protocol": "http"}, "healthcheck-path", "/ready", "/live")
	c.one("check-path-tcp", notes{"healthcheck-path": "/ready"}, addPort())
	c.values("check-interval", "", nil, "healthcheck-interval", "20", "30")
	c.values("check-timeout", "", nil, "healthcheck-timeout", "3", "6")
	c.values("check-up", "", nil, "healthcheck-healthy-threshold", "4", "5")
	c.values("check-down", "", nil, "healthcheck-unhealthy-threshold", "4", "5")
	c.one("check-both", notes{"healthcheck-healthy-threshold": "4", "healthcheck-unhealthy-threshold": "4"},
		annotate(notes{"healthcheck-healthy-threshold": "3", "healthcheck-unhealthy-threshold": "3"}))
	c.odds("check-interval", "healthcheck-interval", "", "1", "10s")
	c.odds("check-timeout", "healthcheck-timeout", "", "1000")
	c.odds("check-up", "healthcheck-healthy-threshold", "1", "11")
	c.with("check-local", local, notes{"healthcheck-path": "/mine", "healthcheck-port": "traffic-port"}, remove("healthcheck-path", "healthcheck-port"))
	c.values("certificate", twoPorts, nil, "ssl-cert", certificate, another)
	c.with("certificate-later", twoPorts, nil, annotate(notes{"ssl-cert": certificate}))
	c.values("ssl-ports", twoPorts, notes{"ssl-cert": certificate}, "ssl-ports", "https", "443", "*")
	c.with("ssl-ports-odd", twoPorts, notes{"ssl-cert": certificate, "ssl-ports": " https , 80"})
	c.values("ssl-policy", twoPorts, notes{"ssl-cert": certificate, "ssl-ports": "https"}, "ssl-negotiation-policy",
		"ELBSecurityPolicy-TLS-1-2-2017-01", "ELBSecurityPolicy-2016-08")
	c.values("backend", "", nil, "backend-protocol", "http", "tcp")
	c.values("backend-ssl", twoPorts, notes{"ssl-cert": certificate}, "backend-protocol", "ssl", "http", "https", "tcp")
	c.odds("backend", "backend-protocol", "https", "ssl", "nothing")
	c.values("target-attributes", "", nil, "target-group-attributes", "preserve_client_ip.enabled=false", "preserve_client_ip.enabled=true,proxy_protocol_v2.enabled=true")
	c.odds("target-attributes", "target-group-attributes", "", "deregistration_delay.timeout_seconds=10", "preserve_client_ip.enabled=no")
	c.values("proxy", "", nil, "proxy-protocol", "*")
	c.odds("proxy", "proxy-protocol", "", "v2", "true")
}

// groups adds what the annotations of security groups do. With classic load balancers the existing manager takes other Services'
// rules away by them: they are a group of their own.
func (c *company) groups() {
	c.one("plain-beside", nil)
	c.values("groups", "", nil, "security-groups", OwnGroup, OwnGroup+","+TwoGroup)
	c.later("groups", "", notes{"security-groups": OwnGroup})
	c.odds("groups", "security-groups", "", "nothing", "sg-0ffffffffffffffff")
	c.values("more-groups", "", nil, "extra-security-groups", OwnGroup, OwnGroup+","+TwoGroup)
}

var serviceController = []string{"service-lb-controller"}

// classicServices are Services of classic load balancers.
func classicServices() []Group {
	spec, common, groups := &company{prefix: "c-"}, &company{prefix: "c-"}, &company{prefix: "c-"}
	groups.groups()
	spec.spec()
	common.common()
	common.values("draining", "", notes{"connection-draining-timeout": "60"}, "connection-draining-enabled", "true", "false")
	common.values("draining-timeout", "", notes{"connection-draining-enabled": "true"}, "connection-draining-timeout", "30", "90")
	common.odds("draining-timeout", "connection-draining-timeout", "", "1m")
	common.values("idle", "", nil, "connection-idle-timeout", "120", "30")
	common.odds("idle", "connection-idle-timeout", "", "1h", "0")
	common.values("logs-interval", "", notes{"access-log-enabled": "true", "access-log-s3-bucket-name": "bucket"}, "access-log-emit-interval", "5", "60")
	common.odds("logs-interval", "access-log-emit-interval", "", "7")
	common.one("allocations", notes{"eip-allocations": EIP1 + "," + EIP2}, addPort())
	common.one("addresses", notes{"private-ipv4-addresses": "10.0.0.240,10.0.16.240"}, addPort())
	return append(classicConfigured(), []Group{
		{Name: "classic-spec", Conf: "[Global]\n", Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: spec.scenarios},
		{Name: "classic", Conf: "[Global]\n", Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: common.scenarios},
		{Name: "classic-groups", Conf: "[Global]\n", Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: groups.scenarios},
	}...)
}

// classicConfigured are those that cloud.conf says something of.
func classicConfigured() []Group {
	conf, own := &company{prefix: "c-conf-"}, &company{prefix: "c-own-"}
	conf.one("plain", nil, addPort())
	conf.with("local", local, nil, patch(global))
	conf.with("ranges", ranges, nil)
	conf.one("check", notes{"healthcheck-protocol": "TCP", "healthcheck-port": "traffic-port"}, remove("healthcheck-protocol", "healthcheck-port"))
	conf.one("check-path", notes{"healthcheck-path": "/mine"}, annotate(notes{"healthcheck-port": "8080"}))
	conf.one("backend", notes{"backend-protocol": "ssl", "ssl-cert": certificate})
	own.one("plain", nil, addPort())
	own.one("groups", notes{"security-groups": TwoGroup}, remove("security-groups"))
	own.one("groups-later", nil, annotate(notes{"security-groups": TwoGroup}))
	own.one("more-groups", notes{"extra-security-groups": TwoGroup}, remove("extra-security-groups"))
	own.one("gone", nil, service(steps.Step{Delete: true}))
	const shared = "KubernetesClusterTag = " + ClusterID + "\nDisableSecurityGroupIngress = true\nClusterServiceLoadBalancerHealthProbeMode = Shared\n" +
		"ClusterServiceSharedLoadBalancerHealthProbePort = 10356\nClusterServiceSharedLoadBalancerHealthProbePath = /live\n"
	return []Group{
		{Name: "classic-conf", Conf: "[Global]\n" + shared, Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: conf.scenarios},
		{Name: "classic-own", Conf: "[Global]\nElbSecurityGroup = " + OwnGroup + "\n", Controllers: serviceController, Nodes: workers(), Joins: third(), Scenarios: own.scenarios},
	}
}
