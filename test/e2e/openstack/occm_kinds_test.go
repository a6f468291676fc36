//go:build e2e && occm

package e2e

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
)

// kind is a Service of one kind, alone in its namespace, which has the kind's name.
type kind struct {
	name        string
	annotations map[string]string
	ports       []corev1.ServicePort
	patch       string // a JSON merge patch of the Service
	// joins names the kind whose load balancer it shares, which is made first.
	joins string
	// nodes are its members before and after a Node has left; all Nodes without.
	nodes []int
	// none: it has no members.
	none bool
}

func (k *kind) service() *script.Service {
	s := &script.Service{Annotations: map[string]string{}, Ports: k.ports, Patch: k.patch}
	for key, value := range k.annotations {
		s.Annotations[key] = value
	}
	return s
}

// kinds are made by one manager, with one cloud.conf.
type kinds struct {
	name  string
	conf  string
	flags []string
	list  []kind
}

func sctp(port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: "sctp", Port: port, Protocol: corev1.ProtocolSCTP}
}

// anno are annotations: names and values by turns.
func anno(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[annotationPrefix+pairs[i]] = pairs[i+1]
	}
	return out
}

func on(p ...corev1.ServicePort) []corev1.ServicePort { return p }

const (
	local  = `{"spec":{"externalTrafficPolicy":"Local"}}`
	sticky = `{"spec":{"sessionAffinity":"ClientIP"}}`
)

// usual is the cloud.conf of most kinds.
const usual = "[LoadBalancer]\nmax-shared-lb = 3\n" +
	"[LoadBalancerClass \"gold\"]\nfloating-network-id = {ext}\nsubnet-id = {subnet}\nmember-subnet-id = {subnet}\n" +
	"[LoadBalancerClass \"net\"]\nnetwork-id = {network}\n"

// allKinds are those that run one after the other. Node 1 has the label "pool=web".
func allKinds() []kinds {
	return []kinds{
		{name: "protocols", conf: usual, list: []kind{
			{name: "plain"},
			{name: "two-ports", ports: on(tcp(80), tcp(443))},
			{name: "tcp-udp", ports: on(tcp(53), udp(53))},
			{name: "udp", ports: on(udp(53))},
			{name: "sctp", ports: on(sctp(99))},
		}},
		{name: "internal", conf: usual, list: []kind{
			{name: "internal", annotations: map[string]string{annotationInternal: "true"}},
			{name: "internal-odd", annotations: map[string]string{annotationInternal: "True"}},
			{name: "internal-ip", annotations: map[string]string{annotationInternal: "true"}, patch: `{"spec":{"loadBalancerIP":"10.7.77.77"}}`},
		}},
		{name: "applications", conf: usual, list: []kind{
			{name: "proxy", annotations: anno("proxy-protocol", "true"), ports: on(tcp(80), tcp(443))},
			{name: "proxy-v2", annotations: anno("proxy-protocol", "v2")},
			{name: "forwarded-for", annotations: anno("x-forwarded-for", "true"), ports: on(tcp(80), tcp(443))},
			{name: "forwarded-odd", annotations: anno("x-forwarded-for", "1")},
			{name: "tls", annotations: anno("default-tls-container-ref", "{tls}"), ports: on(tcp(443))},
		}},
		{name: "clients", conf: usual, list: []kind{
			{name: "ranges", patch: `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24","198.51.100.7/32"]}}`},
			{name: "ranges-annotation", annotations: map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: "192.0.2.0/24, 198.51.100.0/25"}},
			{name: "monitor", annotations: anno("enable-health-monitor", "true", "health-monitor-delay", "9", "health-monitor-timeout", "4", "health-monitor-max-retries", "2",
				"health-monitor-max-retries-down", "4"), ports: on(tcp(80), udp(53))},
			{name: "local-monitor", annotations: anno("enable-health-monitor", "true"), ports: on(tcp(80), udp(53)), patch: local},
			{name: "affinity", patch: sticky},
		}},
		{name: "local", conf: usual, list: []kind{
			{name: "local", patch: local},
		}},
		{name: "numbers", conf: usual, list: []kind{
			{name: "timeouts", annotations: anno("timeout-client-data", "60000", "timeout-member-connect", "7000", "timeout-member-data", "70000", "timeout-tcp-inspect", "10",
				"connection-limit", "100")},
			{name: "timeouts-odd", annotations: anno("timeout-client-data", "60s", "connection-limit", "", "enable-health-monitor", "yes")},
		}},
		{name: "addresses", conf: usual, list: []kind{
			{name: "keep-fip", annotations: anno("keep-floatingip", "true")},
			{name: "own-fip", patch: `{"spec":{"loadBalancerIP":"{own-fip}"}}`},
			{name: "own-port", annotations: anno("port-id", "{own-port}")},
			{name: "own-lb", annotations: anno("load-balancer-id", "{own-lb}"), ports: on(tcp(8080))},
			{name: "shared", ports: on(tcp(80))},
			{name: "shared-guest", ports: on(tcp(81), udp(81)), joins: "shared"},
		}},
		{name: "networks", conf: usual, list: []kind{
			{name: "class", annotations: anno("class", "gold")},
			{name: "class-network", annotations: anno("class", "net")},
			{name: "network", annotations: anno("network-id", "{network}")},
			{name: "subnet", annotations: anno("subnet-id", "{subnet}", "member-subnet-id", "{subnet}", "floating-network-id", "{ext}")},
		}},
		{name: "nodes", conf: usual, list: []kind{
			{name: "selector", annotations: anno("node-selector", "pool=web"), nodes: []int{1}},
			// With a subnet: OCCM takes it from a Node that the selector leaves out, ours then has none to ask.
			{name: "selector-empty", annotations: anno("node-selector", "nowhere", "subnet-id", "{subnet}"), none: true},
			{name: "method", annotations: anno("lb-method", "LEAST_CONNECTIONS")},
			{name: "hostname", annotations: anno("hostname", "www.example.org")},
			{name: "no-node-ports", patch: `{"spec":{"allocateLoadBalancerNodePorts":false,"ports":[{"name":"http","port":80,"nodePort":null}]}}`, none: true},
		}},
		{name: "ovn", conf: "[LoadBalancer]\nlb-provider = ovn\nlb-method = SOURCE_IP_PORT\n", list: []kind{
			{name: "ovn-plain", ports: on(tcp(80), udp(80))},
			{name: "ovn-sctp", ports: on(sctp(99))},
			{name: "ovn-internal", annotations: map[string]string{annotationInternal: "true"}},
			{name: "ovn-ranges", patch: `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24"]}}`},
			{name: "ovn-timeouts", annotations: anno("timeout-client-data", "60000", "connection-limit", "100")},
			{name: "ovn-monitor", annotations: anno("enable-health-monitor", "true"), ports: on(tcp(80), udp(53))},
			{name: "ovn-shared"},
			{name: "ovn-guest", ports: on(udp(81)), joins: "ovn-shared"},
		}},
		{name: "configured", conf: "[LoadBalancer]\nsubnet-id = {subnet}\nfloating-network-id = {ext}\nlb-method = LEAST_CONNECTIONS\ncreate-monitor = true\nmonitor-delay = 1m\n" +
			"monitor-timeout = 10s\nmonitor-max-retries = 3\ncascade-delete = false\nenable-ingress-hostname = true\ningress-hostname-suffix = lb.example.org\n" +
			"manage-security-groups = true\n", list: []kind{
			{name: "conf-plain", ports: on(tcp(80), udp(53))},
			{name: "conf-proxy", annotations: anno("proxy-protocol", "v1")},
			{name: "conf-local", patch: local},
			{name: "conf-ranges", patch: `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24"]}}`},
			{name: "conf-unmonitored", annotations: anno("enable-health-monitor", "false")},
			{name: "conf-internal", annotations: map[string]string{annotationInternal: "true"}},
			{name: "conf-shared"},
			{name: "conf-guest", ports: on(tcp(81)), joins: "conf-shared"},
		}},
		{name: "internal-only", conf: "[LoadBalancer]\ninternal-lb = true\nnode-selector = pool=web\nnetwork-id = {network}\nmember-subnet-id = {subnet}\n", list: []kind{
			{name: "only-plain", nodes: []int{1}},
			{name: "only-external", annotations: map[string]string{annotationInternal: "false"}, nodes: []int{1}},
			{name: "only-all", annotations: anno("node-selector", "")},
		}},
	}
}
