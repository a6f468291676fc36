package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

func loadBalancerService(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports, Selector: map[string]string{"app": name}},
	}
}

func (c *cluster) createService(s *corev1.Service) *corev1.Service {
	c.t.Helper()
	out, err := c.client.CoreV1().Services(s.Namespace).Create(c.t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *cluster) service(name string) (*corev1.Service, bool) {
	c.t.Helper()
	s, err := c.client.CoreV1().Services("default").Get(c.t.Context(), name, metav1.GetOptions{})
	if ignoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
	return s, err == nil
}

func (c *cluster) patchService(name, patch string) {
	c.t.Helper()
	if _, err := c.client.CoreV1().Services("default").Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) deleteService(name string) {
	c.t.Helper()
	if err := c.client.CoreV1().Services("default").Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// address waits for the Service's address, and until all that belongs to it is done: the annotations come last.
func (c *cluster) address(name string) string {
	c.t.Helper()
	address := ""
	eventually.Met(c.t, func() string {
		s, _ := c.service(name)
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Sprintf("Service %s has no address; events: %s", name, c.eventsOf(name))
		}
		if s.Annotations["loadbalancer.openstack.org/load-balancer-id"] == "" {
			return fmt.Sprintf("Service %s has an address, but its load balancer is not done; events: %s", name, c.eventsOf(name))
		}
		address = s.Status.LoadBalancer.Ingress[0].IP
		return ""
	})
	return address
}

func (c *cluster) eventsOf(name string) string {
	c.t.Helper()
	list, err := c.client.CoreV1().Events("default").List(c.t.Context(), listOf(name))
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, e := range list.Items {
		out = append(out, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
	}
	return strings.Join(out, "\n")
}

// listOf lists the events of one object.
func listOf(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "involvedObject.name=" + name}
}

// leftovers is what load balancers are made of.
func leftovers(sim *ossim.Sim) string {
	s := sim.Snapshot()
	data, _ := json.Marshal(map[string]any{"lb": s.LoadBalancers, "listeners": s.Listeners, "pools": s.Pools, "members": s.Members,
		"monitors": s.HealthMonitors, "floating IPs": s.FloatingIPs, "security groups": s.SecurityGroups, "ports": s.Ports})
	return string(data)
}

func wantGone(c *cluster, sim *ossim.Sim, name, before string) func() string {
	return func() string {
		if s, ok := c.service(name); ok {
			return fmt.Sprintf("Service %s is still there (finalizers %v); events: %s", name, s.Finalizers, c.eventsOf(name))
		}
		if diff := cmp.Diff(before, leftovers(sim)); diff != "" {
			return "the cloud is not as before:\n" + diff
		}
		return ""
	}
}

// backend answers with its name on the NodePort of a server.
func backend(t *testing.T, server ossim.Server, nodePort int32) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(server.Addresses[0].String(), fmt.Sprint(nodePort)))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, server.Name) })}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
}

func fetch(t *testing.T, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func httpPort(port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: fmt.Sprintf("p%d", port), Port: port, Protocol: corev1.ProtocolTCP}
}

// serviceFixture is a cluster with three nodes whose cloud controller manager works on Services.
func serviceFixture(t *testing.T, args ...string) (*cluster, *ossim.Sim, []ossim.Server) {
	t.Helper()
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 4, NamePrefix: "node-"})
	const nodes = 3
	c.register(servers[:nodes], always(nodeState{ready: true, initialized: true}))
	c.startCCM(sim, append([]string{"--leader-elect=false", "--controllers=service", "--concurrent-service-syncs=5"}, args...)...)
	return c, sim, servers
}

func TestServiceLifecycle(t *testing.T) {
	c, sim, servers := serviceFixture(t)
	before := leftovers(sim)
	web := c.createService(loadBalancerService("web", httpPort(80)))
	for _, s := range servers {
		backend(t, s, web.Spec.Ports[0].NodePort)
	}
	address := c.address("web")
	eventually.Met(t, func() string {
		if body, err := fetch(t, "http://"+address+":80/"); err != nil || !strings.HasPrefix(body, "node-") {
			return fmt.Sprintf("through the load balancer: %q, %v", body, err)
		}
		return ""
	})

	t.Run("our own annotations cost no second pass", func(t *testing.T) {
		eventually.Met(t, func() string {
			if c.ensured("web") == 0 {
				return "no event"
			}
			return ""
		})
		eventually.Met(t, func() string {
			n := sim.Count("", "")
			<-time.After(time.Second)
			if more := sim.Count("", "") - n; more > 0 {
				return fmt.Sprintf("%d requests without a change", more)
			}
			return ""
		})
		if n := c.ensured("web"); n != 1 {
			t.Errorf("%d passes, want one", n)
		}
		complete := false
		for _, r := range sim.Requests() {
			// The last change is the touch of a pool, whose end is looked at.
			looks := r.Method == http.MethodGet && strings.HasPrefix(r.Path, "/lbaas/loadbalancers/") && !strings.HasSuffix(r.Path, "/status")
			if complete && !looks {
				t.Errorf("after everything was made: %s %s %s", r.Service, r.Method, r.Path)
			}
			complete = complete || r.Method == http.MethodPut && strings.HasPrefix(r.Path, "/lbaas/pools/")
		}
		if !complete {
			t.Error("the request log does not show how the load balancer was touched")
		}
		s, _ := c.service("web")
		t.Logf("annotations: %v", s.Annotations)
		if len(s.Finalizers) != 1 || s.Finalizers[0] != servicehelper.LoadBalancerCleanupFinalizer {
			t.Errorf("finalizers are %v", s.Finalizers)
		}
	})

	t.Run("a node joins", func(t *testing.T) {
		sim.ResetRequests()
		c.create(nodeOf(servers[3], nodeState{ready: true, initialized: true}))
		eventually.Met(t, func() string {
			if n := len(sim.Snapshot().Members); n != 4 {
				return fmt.Sprintf("the load balancer has %d members, want 4; events: %s", n, c.eventsOf("web"))
			}
			return ""
		})
		t.Logf("%d requests, %d of them mutating", sim.Count("", ""), sim.Mutations())
	})

	t.Run("a port joins", func(t *testing.T) {
		c.patchService("web", `{"spec":{"ports":[{"name":"p80","port":80,"protocol":"TCP"},{"name":"p81","port":81,"protocol":"TCP"}]}}`)
		eventually.Met(t, func() string {
			if n := len(sim.Snapshot().Listeners); n != 2 {
				return fmt.Sprintf("the load balancer has %d listeners, want 2; events: %s", n, c.eventsOf("web"))
			}
			return ""
		})
	})

	t.Run("deletion leaves nothing", func(t *testing.T) {
		c.deleteService("web")
		eventually.Met(t, wantGone(c, sim, "web", before))
	})
}

func TestServiceThatNoLongerWantsALoadBalancer(t *testing.T) {
	c, sim, _ := serviceFixture(t)
	before := leftovers(sim)
	c.createService(loadBalancerService("web", httpPort(80)))
	c.address("web")
	c.patchService("web", `{"spec":{"type":"ClusterIP"}}`)
	eventually.Met(t, func() string {
		s, _ := c.service("web")
		switch {
		case len(s.Finalizers) > 0 || len(s.Status.LoadBalancer.Ingress) > 0:
			return fmt.Sprintf("finalizers %v, status %v; events: %s", s.Finalizers, s.Status.LoadBalancer, c.eventsOf("web"))
		default:
			return cmp.Diff(before, leftovers(sim))
		}
	})
}

// When somebody has deleted the load balancer itself, what else was made for it goes too.
func TestServiceWhoseLoadBalancerIsGone(t *testing.T) {
	c, sim, _ := serviceFixture(t)
	before := leftovers(sim)
	c.createService(loadBalancerService("web", httpPort(80)))
	c.address("web")
	deleteLoadBalancers(t, sim)
	if cmp.Equal(before, leftovers(sim)) {
		t.Fatal("nothing is left beside the load balancer: this test would show nothing")
	}
	c.deleteService("web")
	eventually.Met(t, wantGone(c, sim, "web", before))
}

// What is wrong with the annotations is said, and the Service is served all the same.
func TestServiceWithInvalidAnnotations(t *testing.T) {
	c, sim, _ := serviceFixture(t)
	before := leftovers(sim)
	s := loadBalancerService("web", httpPort(80))
	s.Annotations = map[string]string{
		"loadbalancer.openstack.org/proxy-protocol":     "maybe-not",
		"loadbalancer.openstack.org/connection-limit":   "many",
		"loadbalancer.openstack.org/timeout-client-dta": "1",
	}
	c.createService(s)
	c.address("web")
	eventually.Met(t, func() string {
		events := c.eventsOf("web")
		for _, want := range []string{"LoadBalancerWarning", `"maybe-not"`, "connection-limit", `"many"`, "timeout-client-dta", "timeout-client-data"} {
			if !strings.Contains(events, want) {
				return fmt.Sprintf("events lack %s:\n%s", want, events)
			}
		}
		return ""
	})
	c.deleteService("web")
	eventually.Met(t, wantGone(c, sim, "web", before))
}

// A Service of another load balancer class keeps the finalizer of that class's controller. The framework's, which the framework takes off
// Services of any class, does not keep it for ever.
func TestServiceOfAnotherClass(t *testing.T) {
	c, sim, _ := serviceFixture(t)
	const theirs = "example.com/resources"
	s := loadBalancerService("web", httpPort(80))
	class := "example.com/other"
	s.Spec.LoadBalancerClass = &class
	s.Finalizers = []string{theirs, servicehelper.LoadBalancerCleanupFinalizer}
	c.createService(s)
	c.createService(loadBalancerService("next", httpPort(80)))
	c.address("next") // so that "web" has had its turn
	if got, _ := c.service("web"); len(got.Finalizers) != 2 || strings.Contains(c.eventsOf("web"), "LoadBalancer") {
		t.Errorf("a Service that is not ours is touched: finalizers %v, events %s", got.Finalizers, c.eventsOf("web"))
	}
	c.deleteService("web")
	eventually.Met(t, func() string {
		if got, ok := c.service("web"); !ok || !slices.Equal(got.Finalizers, []string{theirs}) {
			return fmt.Sprintf("the Service is there: %t, with the finalizers %v", ok, got.Finalizers)
		}
		return ""
	})
	if n := len(sim.Snapshot().LoadBalancers); n != 1 {
		t.Errorf("%d load balancers, want that of the other Service only", n)
	}
	c.patchService("web", `{"metadata":{"finalizers":null}}`)
}

// deleteLoadBalancers deletes all load balancers, as an operator does.
func deleteLoadBalancers(t *testing.T, sim *ossim.Sim) {
	t.Helper()
	client := octavia(t, sim)
	for _, lb := range sim.Snapshot().LoadBalancers {
		if err := deleteLoadBalancer(context.WithoutCancel(t.Context()), client, lb.ID); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Met(t, func() string {
		if n := len(sim.Snapshot().LoadBalancers); n > 0 {
			return fmt.Sprintf("%d load balancers are left", n)
		}
		return ""
	})
}
