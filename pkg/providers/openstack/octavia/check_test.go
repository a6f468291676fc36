package octavia

import (
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/octavia/plan"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// TestSourceIPPortOnAmphora: Octavia's amphora driver checks the algorithm of single pools
// (AMPHORA_SUPPORTED_LB_ALGORITHMS), but not of those that come with a load balancer, which then
// go by ROUND_ROBIN. Services served so keep being served, and get further ports.
func TestSourceIPPortOnAmphora(t *testing.T) {
	_, warnings, err := config.Parse("cloud.conf", []byte("[Global]\nauth-url=http://127.0.0.1/v3\nusername=u\nuser-domain-name=d\npassword=p\ntenant-name=t\ntenant-domain-name=d\n[LoadBalancer]\nlb-method=SOURCE_IP_PORT\n"))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "provider amphora does not know SOURCE_IP_PORT") {
		t.Errorf("cloud.conf: %v, warnings %q", err, warnings)
	}

	for _, tt := range []struct {
		name, conf, annotation string
		warnings               int
	}{
		{name: "annotation", conf: config.MethodRoundRobin, annotation: config.MethodSourceIPPort, warnings: 1},
		{name: "cloud.conf", conf: config.MethodSourceIPPort},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond}, 3, "")
			x.lbs.cfg.LoadBalancer.Method = tt.conf
			if tt.annotation != "" {
				x.spec.Settings[plan.AnnMethod] = tt.annotation
			}
			problems, warnings := plan.Check(x.lbs.cfg, x.spec)
			if len(problems) > 0 || len(warnings) != tt.warnings {
				t.Errorf("problems %v, warnings %q", problems, warnings)
			}
			status := x.ensure(x.spec)
			if got := status.Warnings; len(got) != tt.warnings || len(got) > 0 && !strings.Contains(got[0], "does not know SOURCE_IP_PORT and goes by ROUND_ROBIN") {
				t.Errorf("warnings %q", got)
			}
			port := x.spec.Ports[0]
			port.Port, port.NodePort = 8443, 31443
			x.spec.Ports = append(x.spec.Ports, port)
			x.ensure(x.spec)
			x.wantConverged(x.spec, "amphora")
		})
	}

	x := newLBTestOn(t, ossim.Options{StateDelay: time.Millisecond}, 3, "")
	x.lbs.cfg.LoadBalancer.Method = config.MethodSourceIPPort
	lb := x.makeLB(loadbalancers.CreateOpts{Name: occmName("web"), VipSubnetID: x.lbs.cfg.LoadBalancer.SubnetID, Tags: []string{occmName("web")}, Listeners: []listeners.CreateOpts{{
		Name: "listener_0_" + occmName("web"), Protocol: "TCP", ProtocolPort: 80, Tags: []string{occmName("web")},
		DefaultPool: &pools.CreateOpts{Name: "pool_0_" + occmName("web"), Protocol: "TCP", LBMethod: pools.LBMethodSourceIpPort},
	}}})
	published(x.spec, lb.ID, lb.VIPAddress)
	x.ensure(x.spec)
	if got := x.lb(lb.ID); got.ID != lb.ID || len(x.treeOf(lb.ID).Pools) != 2 {
		t.Errorf("taken over: %+v", x.treeOf(lb.ID))
	}
	x.wantConverged(x.spec, "amphora")
}
