package openstack

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/api/apitest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

const (
	missingID = "00000000-0000-4000-8000-00000000dead"
	idA       = "aaaaaaaa-0000-4000-8000-000000000001"
	idB       = "bbbbbbbb-0000-4000-8000-000000000002"
)

// newProvider makes the provider as the program does, from the simulator's cloud.conf with
// more appended, and logs in, so that request counts are those of the operation alone.
func newProvider(t *testing.T, sim *ossim.Sim, more string) *cloud.Provider {
	t.Helper()
	return newProviderOf(t, sim, sim.CloudConf()+"\n"+more)
}

func newProviderOf(t *testing.T, sim *ossim.Sim, conf string) *cloud.Provider {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p, warnings, err := New(context.Background(), file, cloud.Options{UserAgent: "test", RequestTimeout: apitest.RequestTimeout})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("new provider: %v, %v", warnings, err)
	}
	ctx := testContext(t)
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	sim.ResetRequests()
	return p
}

func testContext(t *testing.T) context.Context { return apitest.Context(t) }

func calls(sim *ossim.Sim) int { return apitest.Calls(sim) }

var testCluster = cloud.Cluster{Name: "kubernetes", UID: "0a1b2c3d-0000-4000-8000-000000000001"}

// managed has the provider manage security groups.
const managed = "manage-security-groups=true\n"

// lbTest is a simulated cloud with servers, the provider and one Service.
type lbTest struct {
	t    *testing.T
	sim  *ossim.Sim
	lbs  cloud.LoadBalancers
	all  []cloud.LoadBalancerMember
	spec *cloud.LoadBalancerSpec
}

func newLBTest(t *testing.T, n int) *lbTest {
	t.Helper()
	x := &lbTest{t: t, sim: ossim.ForTest(t, ossim.Options{StateDelay: 3 * time.Millisecond})}
	for _, s := range x.sim.SeedServers(ossim.Seed{Count: n, NamePrefix: "node-"}) {
		m := cloud.LoadBalancerMember{Node: cloud.InstanceRef{NodeName: s.Name, ProviderID: "openstack:///" + s.ID}}
		for _, a := range s.Addresses {
			m.Addresses = append(m.Addresses, netip.MustParseAddr(fmt.Sprint(a)))
		}
		x.all = append(x.all, m)
	}
	x.spec = x.service("web")
	x.lbs = newProvider(t, x.sim, "").LoadBalancers
	return x
}

// service is a Service with two ports, TCP and UDP.
func (x *lbTest) service(name string) *cloud.LoadBalancerSpec {
	return &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: testCluster, Namespace: "default", Name: name, UID: "uid-" + name, Settings: cloud.Settings{}},
		Ports: []cloud.LoadBalancerPort{
			{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
			{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053},
		},
		Members:    slices.Clone(x.all),
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
	}
}

// ensure has the Service served, and does to the spec what the service controller does to the Service.
func (x *lbTest) ensure(spec *cloud.LoadBalancerSpec) {
	x.t.Helper()
	status, err := x.lbs.Ensure(testContext(x.t), spec)
	if err != nil {
		x.t.Fatalf("Ensure: %v", err)
	}
	spec.CurrentIngress = status.Ingress
	for k, v := range status.Annotations {
		spec.Settings[k] = v
	}
}
