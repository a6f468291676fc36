package octavia

import (
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// effectTest is a cloud with all that keys and annotations can name, and what a Service in it
// led to.
type effectTest struct {
	*lbTest
	// network has the subnet, external the external ones public-a (tagged a) and public-b (b).
	network, subnet, external, publicA, publicB string
	port, secret, class                         string
	bodies                                      *strings.Builder
	settings                                    cloud.Settings
	off                                         bool

	lb     *plan.LoadBalancer
	status *cloud.LoadBalancerStatus
	err    error
}

func newEffectTest(t *testing.T) *effectTest {
	x := &effectTest{lbTest: newLBTest(t, 2, ""), bodies: &strings.Builder{}, settings: cloud.Settings{}}
	id := func(path, kind string, attributes map[string]any) string {
		return x.neutron("POST", path, map[string]any{kind: attributes})[kind].(map[string]any)["id"].(string)
	}
	d := x.sim.Defaults()
	x.network = id("networks", "network", map[string]any{"name": "other"})
	x.subnet = id("subnets", "subnet", map[string]any{"network_id": x.network, "ip_version": 4, "cidr": "10.50.0.0/24"})
	x.neutron("PUT", "routers/"+d.RouterID+"/add_router_interface", map[string]any{"subnet_id": x.subnet})
	x.port = id("ports", "port", map[string]any{"network_id": x.network})
	x.secret = x.sim.AddSecret("certificate", "text/plain", []byte("x"))
	x.asAdmin(func() {
		x.external = id("networks", "network", map[string]any{"name": "external", "router:external": true})
		for i, name := range []string{"a", "b"} {
			s := id("subnets", "subnet", map[string]any{"network_id": x.external, "ip_version": 4, "cidr": fmt.Sprintf("10.6%d.0.0/24", i), "name": "public-" + name})
			x.neutron("PUT", "subnets/"+s+"/tags/"+name, nil)
			if i == 0 {
				x.publicA = s
			} else {
				x.publicB = s
			}
		}
	})
	router := id("routers", "router", map[string]any{"name": "second", "external_gateway_info": map[string]any{"network_id": x.external}})
	way := id("ports", "port", map[string]any{"network_id": d.NetworkID})
	x.neutron("PUT", "routers/"+router+"/add_router_interface", map[string]any{"port_id": way})
	return x
}

// asAdmin does something as an administrator.
func (x *lbTest) asAdmin(do func()) {
	x.admin = true
	x.restart()
	do()
	x.admin = false
	x.restart()
}

// run serves the Service.
func (x *effectTest) run(lines string) {
	x.t.Helper()
	x.conf = lines
	if x.class != "" {
		x.conf += "\n[LoadBalancerClass \"c\"]\n" + x.class + "\n"
		x.settings[plan.AnnClass] = "c"
	}
	var mu sync.Mutex
	defer x.sim.OnMutation(func(m ossim.Mutation) {
		mu.Lock()
		defer mu.Unlock()
		if !m.After && m.Service == "load-balancer" {
			x.bodies.Write(m.Body)
		}
	})()
	x.base = func(conf string) string { // without what is given again
		var out []string
		for line := range strings.Lines(conf) {
			if key, _, ok := strings.Cut(line, " = "); !ok || !strings.Contains("\n"+lines, "\n"+key+"=") {
				out = append(out, line)
			}
		}
		return strings.Join(out, "")
	}
	if newLoadBalancers(x.t, x.sim, x.base(x.sim.CloudConf())+"\n[LoadBalancer]\n"+x.conf) == nil {
		x.off = true
		return
	}
	x.restart()
	x.spec = x.service("web", x.settings)
	if x.status, x.err = x.lbs.Ensure(testContext(x.t), x.spec); x.err != nil {
		return
	}
	publish(x.spec, x.status)
	ctx := testContext(x.t)
	var err error
	if x.lb, err = x.op().get(ctx, x.spec.Settings[plan.AnnLoadBalancerID]); err != nil {
		x.t.Fatal(err)
	}
}

// effect is what one key or annotation does. The test fails when see says the same without it.
type effect struct {
	// with is the line of cloud.conf (or of the class), or the annotation's value; of is the
	// test's cloud before it is served.
	with func(of *effectTest) string
	// also is what has to be set beside, with and without it.
	also func(of *effectTest) (conf string)
	see  func(x *effectTest) string
	want func(x *effectTest) string
}

func always(s string) func(*effectTest) string { return func(*effectTest) string { return s } }

func seeTree(see func(tcp, udp *plan.Listener) any) func(*effectTest) string {
	return func(x *effectTest) string {
		if x.err != nil {
			return x.err.Error()
		}
		tree := x.tree(x.spec)
		slices.SortFunc(tree.Listeners, func(a, b *plan.Listener) int { return strings.Compare(a.Protocol, b.Protocol) })
		return fmt.Sprint(see(tree.Listeners[0], tree.Listeners[1]))
	}
}

func seeLB(see func(*plan.LoadBalancer) any) func(*effectTest) string {
	return func(x *effectTest) string {
		if x.err != nil {
			return x.err.Error()
		}
		return fmt.Sprint(see(x.lb))
	}
}

func seeStatus(x *effectTest) string {
	if x.err != nil {
		return x.err.Error()
	}
	in := x.status.Ingress[0]
	mode := ""
	if in.IPMode != nil {
		mode = string(*in.IPMode)
	}
	if in.IP != "" {
		return "an address " + mode
	}
	return in.Hostname + " " + mode
}

// seeFIP tells the subnet of the floating IP.
func seeFIP(x *effectTest) string {
	if x.err != nil {
		return x.err.Error()
	}
	addr, err := netip.ParseAddr(x.status.Ingress[0].IP)
	switch {
	case err != nil:
		return "none"
	case netip.MustParsePrefix("10.60.0.0/24").Contains(addr):
		return "a"
	case netip.MustParsePrefix("10.61.0.0/24").Contains(addr):
		return "b"
	case len(x.sim.Snapshot().FloatingIPs) == 0:
		return "internal"
	}
	return "the default"
}

func seeBody(part string) func(*effectTest) string {
	return func(x *effectTest) string { return fmt.Sprint(strings.Contains(x.bodies.String(), part)) }
}

func seeAnnotationDefault(name string) func(*effectTest) string {
	return func(x *effectTest) string {
		for _, a := range plan.Annotations(&x.lbs.cfg.LoadBalancer) {
			if a.Name == name {
				return a.Default
			}
		}
		return ""
	}
}

var (
	seeMemberSubnet = seeTree(func(tcp, _ *plan.Listener) any { return tcp.Pool.Members[0].SubnetID })
	seeVIPSubnet    = seeLB(func(lb *plan.LoadBalancer) any { return lb.VIPSubnetID })
	seeMonitor      = seeTree(func(tcp, _ *plan.Listener) any {
		if m := tcp.Pool.Monitor; m != nil {
			return fmt.Sprint(m.Delay, m.Timeout, m.MaxRetries, m.MaxRetriesDown)
		}
		return "none"
	})
	seeProtocols = seeTree(func(tcp, udp *plan.Listener) any {
		return fmt.Sprint(tcp.Protocol, ">", tcp.Pool.Protocol, " ", udp.Protocol, ">", udp.Pool.Protocol)
	})
	seeMethod = seeTree(func(tcp, _ *plan.Listener) any { return tcp.Pool.Method })
)

func monitored(x *effectTest) string { return "create-monitor=true\n" }

func externalNet(x *effectTest) string { return "floating-network-id=" + x.external + "\n" }

func secretRef(x *effectTest) string { return "https://barbican.example.org/v1/secrets/" + x.secret }

const flavorID = "aaaaaaaa-0000-4000-8000-000000000001"

// annotationEffects are those of the annotations, by name.
func annotationEffects() map[string]effect {
	timeout := func(field func(*plan.Timeouts) int) effect {
		return effect{with: always("12345"), want: always("12345"), see: seeTree(func(tcp, _ *plan.Listener) any { return field(tcp.Timeouts) })}
	}
	return map[string]effect{
		plan.AnnInternal:           {with: always("true"), want: always("internal"), see: seeFIP},
		plan.AnnClass:              {with: always("d"), also: func(x *effectTest) string { return "[LoadBalancerClass \"d\"]\nsubnet-id=" + x.subnet + "\n" }, want: func(x *effectTest) string { return x.subnet }, see: seeVIPSubnet},
		plan.AnnFloatingNetworkID:  {with: func(x *effectTest) string { return x.external }, also: always("floating-subnet=public-a\n"), want: always("a"), see: seeOutside},
		plan.AnnFloatingSubnet:     {with: always("~^public-b$"), also: externalNet, want: always("b"), see: seeOutside},
		plan.AnnFloatingSubnetID:   {with: func(x *effectTest) string { return x.publicB }, also: externalNet, want: always("b"), see: seeOutside},
		plan.AnnFloatingSubnetTags: {with: always("!a"), also: externalNet, want: always("b"), see: seeOutside},
		plan.AnnKeepFloatingIP: {with: always("true"), want: always("1 floating IPs after the deletion"), see: func(x *effectTest) string {
			x.delete(x.spec)
			return fmt.Sprintf("%d floating IPs after the deletion", len(x.sim.Snapshot().FloatingIPs))
		}},
		plan.AnnSubnetID:        {with: func(x *effectTest) string { return x.subnet }, want: func(x *effectTest) string { return x.subnet }, see: seeVIPSubnet},
		plan.AnnMemberSubnetID:  {with: func(x *effectTest) string { return x.subnet }, want: func(x *effectTest) string { return x.subnet }, see: seeMemberSubnet},
		plan.AnnNetworkID:       {with: func(x *effectTest) string { return x.network }, also: always("subnet-id=\n"), want: func(x *effectTest) string { return x.subnet }, see: seeVIPSubnet},
		plan.AnnPortID:          {with: func(x *effectTest) string { return x.port }, also: always("subnet-id=\n"), want: func(x *effectTest) string { return x.port }, see: seeLB(func(lb *plan.LoadBalancer) any { return lb.VIPPortID })},
		plan.AnnConnectionLimit: {with: always("77"), want: always("77"), see: seeTree(func(tcp, _ *plan.Listener) any { return tcp.Connections })},
		plan.AnnTimeoutClient:   timeout(func(l *plan.Timeouts) int { return l.Client }),
		plan.AnnTimeoutConnect:  timeout(func(l *plan.Timeouts) int { return l.Connect }),
		plan.AnnTimeoutMember:   timeout(func(l *plan.Timeouts) int { return l.Member }),
		plan.AnnTimeoutInspect:  timeout(func(l *plan.Timeouts) int { return l.Inspect }),
		plan.AnnForwardedFor:    {with: always("true"), want: always("HTTP>HTTP UDP>UDP"), see: seeProtocols},
		plan.AnnTLSContainerRef: {with: secretRef, want: always("TERMINATED_HTTPS>HTTP UDP>UDP"), see: seeProtocols},
		plan.AnnMethod:          {with: always("LEAST_CONNECTIONS"), want: always("LEAST_CONNECTIONS"), see: seeMethod},
		plan.AnnProxyProtocol: {with: always("v2"), want: always("TCP>PROXYV2 UDP>UDP an address Proxy"), see: func(x *effectTest) string {
			return seeProtocols(x) + " " + seeStatus(x)
		}},
		plan.AnnMonitor:            {with: always("true"), want: always("5 3 1 3"), see: seeMonitor},
		plan.AnnMonitorDelay:       {with: always("9"), also: monitored, want: always("9 3 1 3"), see: seeMonitor},
		plan.AnnMonitorTimeout:     {with: always("4"), also: monitored, want: always("5 4 1 3"), see: seeMonitor},
		plan.AnnMonitorRetries:     {with: always("2"), also: monitored, want: always("5 3 2 3"), see: seeMonitor},
		plan.AnnMonitorRetriesDown: {with: always("7"), also: monitored, want: always("5 3 1 7"), see: seeMonitor},
		plan.AnnFlavorID:           {with: always(flavorID), want: always("true"), see: seeBody(`"flavor_id":"` + flavorID + `"`)},
		plan.AnnAvailabilityZone:   {with: always("zone-1"), want: always("true"), see: seeBody(`"availability_zone":"zone-1"`)},
		plan.AnnLoadBalancerID:     {with: always("aaaaaaaa-0000-4000-8000-00000000000f"), want: always("refused"), see: seeRefused},
		plan.AnnHostname:           {with: always("www.example.org"), want: always("www.example.org "), see: seeStatus},
	}
}

// elsewhere are the tests of annotations whose effect is not on a single new load balancer.
func elsewhere() map[string]string {
	return map[string]string{
		plan.AnnSourceRanges: "pkg/lb plans it into LoadBalancerSpec.SourceRanges, see TestLoadBalancerChanges",
		plan.AnnNodeSelector: "pkg/lb plans it into LoadBalancerSpec.Members",
		plan.AnnAddress:      "written; TestLoadBalancerLifecycle",
	}
}

// seeOutside tells where a floating IP would come from: the cloud's router does not lead there
// from every network, and then Neutron says so.
func seeOutside(x *effectTest) string {
	for _, r := range x.sim.Snapshot().FloatingIPs {
		addr, err := netip.ParseAddr(r.Name)
		if err == nil && netip.MustParsePrefix("10.60.0.0/24").Contains(addr) {
			return "a"
		}
		if err == nil && netip.MustParsePrefix("10.61.0.0/24").Contains(addr) {
			return "b"
		}
	}
	return fmt.Sprint("elsewhere: ", x.err)
}

func seeRefused(x *effectTest) string {
	if cloud.KindOf(x.err) == cloud.KindInvalid {
		return "refused"
	}
	return fmt.Sprint(x.err)
}

// configEffects are those of the keys of [LoadBalancer], by name.
func configEffects() map[string]effect {
	key := func(name, value string) func(*effectTest) string { return always(name + "=" + value + "\n") }
	second := func(x *effectTest) string { // shares the load balancer with two more
		for _, name := range []string{"second", "third"} {
			s := x.service(name, cloud.Settings{plan.AnnLoadBalancerID: x.lb.ID})
			for i := range s.Ports {
				s.Ports[i].Port += int32(len(name))
			}
			if _, err := x.lbs.Ensure(testContext(x.t), s); err != nil {
				return fmt.Sprint(cloud.KindOf(err))
			}
		}
		return "all share"
	}
	return map[string]effect{
		"enabled": {with: key("enabled", "false"), want: always("off"), see: func(x *effectTest) string {
			return map[bool]string{true: "off", false: "on"}[x.off]
		}},
		"lb-provider":              {with: key("lb-provider", "ovn"), want: always("ovn"), see: seeLB(func(lb *plan.LoadBalancer) any { return lb.Provider })},
		"lb-method":                {with: key("lb-method", "SOURCE_IP"), want: always("SOURCE_IP"), see: seeMethod},
		"internal-lb":              {with: key("internal-lb", "true"), want: always("internal"), see: seeFIP},
		"node-selector":            {with: key("node-selector", "role=edge"), want: always("role=edge"), see: seeAnnotationDefault(plan.AnnNodeSelector)},
		"cascade-delete":           {with: key("cascade-delete", "false"), want: always("one by one"), see: seeCascade},
		"flavor-id":                {with: key("flavor-id", flavorID), want: always("true"), see: seeBody(`"flavor_id":"` + flavorID + `"`)},
		"availability-zone":        {with: key("availability-zone", "zone-1"), want: always("true"), see: seeBody(`"availability_zone":"zone-1"`)},
		"subnet-id":                {with: func(x *effectTest) string { return "subnet-id=" + x.subnet }, want: func(x *effectTest) string { return x.subnet }, see: seeVIPSubnet},
		"member-subnet-id":         {with: func(x *effectTest) string { return "member-subnet-id=" + x.subnet }, want: func(x *effectTest) string { return x.subnet }, see: seeMemberSubnet},
		"network-id":               {with: func(x *effectTest) string { return "network-id=" + x.network }, also: always("subnet-id=\n"), want: func(x *effectTest) string { return x.subnet }, see: seeVIPSubnet},
		"floating-network-id":      {with: externalNet, also: func(x *effectTest) string { return "floating-subnet=public-a\n" }, want: always("a"), see: seeOutside},
		"floating-subnet":          {with: key("floating-subnet", "public-b"), also: externalNet, want: always("b"), see: seeOutside},
		"floating-subnet-id":       {with: func(x *effectTest) string { return "floating-subnet-id=" + x.publicB }, also: externalNet, want: always("b"), see: seeOutside},
		"floating-subnet-tags":     {with: key("floating-subnet-tags", "b,c"), also: externalNet, want: always("b"), see: seeOutside},
		"create-monitor":           {with: key("create-monitor", "true"), want: always("5 3 1 3"), see: seeMonitor},
		"monitor-delay":            {with: key("monitor-delay", "11s"), also: monitored, want: always("11 3 1 3"), see: seeMonitor},
		"monitor-timeout":          {with: key("monitor-timeout", "2s"), also: monitored, want: always("5 2 1 3"), see: seeMonitor},
		"monitor-max-retries":      {with: key("monitor-max-retries", "4"), also: monitored, want: always("5 3 4 3"), see: seeMonitor},
		"monitor-max-retries-down": {with: key("monitor-max-retries-down", "5"), also: monitored, want: always("5 3 1 5"), see: seeMonitor},
		"manage-security-groups": {with: key("manage-security-groups", "true"), want: always("1 groups"), see: func(x *effectTest) string {
			n := 0
			for _, g := range x.sim.Snapshot().SecurityGroups {
				if strings.HasPrefix(g.Name, groupPrefix) {
					n++
				}
			}
			return fmt.Sprintf("%d groups", n)
		}},
		"enable-ingress-hostname": {with: key("enable-ingress-hostname", "true"), also: proxied, want: always("a name in nip.io"), see: seeSuffix},
		"ingress-hostname-suffix": {with: key("ingress-hostname-suffix", "example.org"), also: func(x *effectTest) string { return proxied(x) + "enable-ingress-hostname=true\n" }, want: always("a name in example.org"), see: seeSuffix},
		"max-shared-lb":           {with: key("max-shared-lb", "9"), want: always("all share"), see: second},
		"container-store": {with: key("container-store", "external"), also: func(*effectTest) string {
			return "default-tls-container-ref=vault/certificate\n"
		}, want: always("asks Octavia"), see: func(x *effectTest) string {
			if strings.Contains(fmt.Sprint(x.err), "Could not retrieve certificate") {
				return "asks Octavia"
			}
			return fmt.Sprint(x.err)
		}},
		"provider-requires-serial-api-calls": {with: key("provider-requires-serial-api-calls", "true"), want: always("false"), see: seeBody(`"default_pool":{`)},
		"default-tls-container-ref":          {with: func(x *effectTest) string { return "default-tls-container-ref=" + secretRef(x) + "\n" }, want: always("TERMINATED_HTTPS>HTTP UDP>UDP"), see: seeProtocols},
	}
}

func seeCascade(x *effectTest) string {
	x.delete(x.spec)
	for _, r := range x.sim.Requests() {
		if r.Method == http.MethodDelete && strings.HasPrefix(r.Path, "/lbaas/loadbalancers/") && r.Query.Get("cascade") == "true" {
			return "in one call"
		}
	}
	return "one by one"
}

func proxied(x *effectTest) string {
	x.settings[plan.AnnProxyProtocol] = "v1"
	return ""
}

func seeSuffix(x *effectTest) string {
	_, host, _ := strings.Cut(x.status.Ingress[0].Hostname, x.status.Annotations[plan.AnnAddress]+".")
	return "a name in " + host
}

// gcfgKeys are the keys of a section.
func gcfgKeys(section any) (keys []string) {
	for f := range reflect.TypeOf(section).Fields() {
		if key, ok := f.Tag.Lookup("gcfg"); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestEveryKeyHasItsEffect shows for each annotation, each key of [LoadBalancer] and each of
// [LoadBalancerClass] what it does in the cloud. A new one without a row fails.
func TestEveryKeyHasItsEffect(t *testing.T) {
	annotations := annotationEffects()
	for _, a := range plan.Annotations(&config.LoadBalancer{}) {
		e, ok := annotations[a.Name]
		if where := elsewhere()[a.Name]; !ok && where == "" {
			t.Errorf("annotation %s has no row", a.Name)
		} else if ok {
			t.Run(strings.ReplaceAll(a.Name, "/", "_"), func(t *testing.T) {
				t.Parallel()
				e.check(t, func(x *effectTest, value, also string) string {
					x.settings[a.Name] = value
					return also
				})
			})
		}
	}
	keys := configEffects()
	inSection := func(_ *effectTest, line, also string) string {
		if strings.Contains(also, "[") {
			return line + "\n" + also
		}
		return also + "\n" + line
	}
	for _, key := range gcfgKeys(config.LoadBalancer{}) {
		e, ok := keys[key]
		if !ok {
			t.Errorf("[LoadBalancer] %s has no row", key)
			continue
		}
		t.Run("LoadBalancer_"+key, func(t *testing.T) {
			t.Parallel()
			e.check(t, inSection)
		})
	}
	for _, key := range gcfgKeys(config.LoadBalancerClass{}) { // as in [LoadBalancer]
		e, ok := keys[key]
		if !ok {
			t.Errorf("[LoadBalancerClass] %s has no row", key)
			continue
		}
		t.Run("LoadBalancerClass_"+key, func(t *testing.T) {
			t.Parallel()
			e.check(t, func(x *effectTest, line, also string) string {
				x.class = line
				return also
			})
		})
	}
}

// check serves a Service with and without the key, in clouds of their own.
func (e effect) check(t *testing.T, set func(x *effectTest, value, also string) string) {
	serve := func(with bool) *effectTest {
		x := newEffectTest(t)
		conf := ""
		if e.also != nil {
			conf = e.also(x)
		}
		if with {
			conf = set(x, e.with(x), conf)
		}
		x.run(conf)
		return x
	}
	x := serve(true)
	if got, want := e.see(x), e.want(x); got != want {
		t.Errorf("with it: %q, want %q", got, want)
	}
	without := serve(false)
	if got := e.see(without); got == e.want(without) {
		t.Errorf("without it: %q as well", got)
	}
}
