package integration

import (
	"bytes"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	corev1 "k8s.io/api/core/v1"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// output collects what a process writes while it is read.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) lines(parts ...string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for line := range strings.SplitSeq(o.buf.String(), "\n") {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			out = append(out, line)
		}
	}
	return out
}

// --dry-run beside a cluster that another controller manager serves says what would be done,
// and does none of it, neither in the cloud nor in the cluster.
func TestDryRunChangesNothing(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 3, NamePrefix: "node-", Zones: []string{"az1"}, Flavor: "m1.small"})
	c.register(servers[:2], always(nodeState{ready: true, podCIDRs: []string{"10.244.0.0/24"}}))
	c.createService(loadBalancerService("kept", corev1.ServicePort{Port: 80}))
	r := c.startCCM(sim)
	c.address("kept")
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	kept := sim.LoadBalancers()[0]
	client := octavia(t, sim)
	tags := []string{kept.Name} // as openstack-cloud-controller-manager leaves it
	eventually.Met(t, func() string {
		if err := loadbalancers.Update(t.Context(), client, kept.ID, loadbalancers.UpdateOpts{Tags: &tags}).Err; err != nil {
			return err.Error() // Octavia may still be busy with it
		}
		return ""
	})
	c.register(servers[2:], always(nodeState{ready: true}))
	c.createService(loadBalancerService("new", corev1.ServicePort{Name: "a", Port: 80}, corev1.ServicePort{Name: "b", Port: 81}))

	sim.ResetRequests()
	before, _ := c.service("kept")
	holder := c.holder(mainLease)
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), binary(t), "--dry-run", "--cloud-provider=openstack", "--cloud-config="+write(t, "cloud.conf", sim.CloudConf()),
		"--kubeconfig="+c.kubeconfig, "--bind-address=127.0.0.1", "--secure-port="+port, "--cluster-cidr=10.244.0.0/16", "--cert-dir="+t.TempDir())
	var stderr output
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const would, store = "Dry run: the cloud would be changed", "Dry run: the API server would store"
	for _, want := range [][]string{
		{would, "PUT", "/lbaas/loadbalancers/" + kept.ID, "isthmus-cluster="},
		{would, "POST", `lbaas/loadbalancers"`, "kube_service_kubernetes_default_new"},
		{store, "/api/v1/nodes/" + servers[2].Name, "openstack:///" + servers[2].ID},
		{store, "/api/v1/namespaces/default/services/new/status"},
	} {
		eventually.Met(t, func() string {
			if len(stderr.lines(want...)) > 0 {
				return ""
			}
			return "no line of the log has " + strings.Join(want, ", ") + ":\n" + strings.Join(stderr.lines(), "\n")
		})
	}
	(&running{t: t, address: "127.0.0.1:" + port}).wait("/readyz", http.StatusOK)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if changes := stderr.lines(would, kept.ID); len(changes) != 1 {
		t.Errorf("taking over the load balancer needs one change, the owner's tag; the log has %q", changes)
	}
	for _, r := range sim.Requests() {
		if r.Method != http.MethodGet && r.Service != "identity" {
			t.Errorf("the cloud got %s %s %s", r.Service, r.Method, r.Path)
		}
	}
	if after, _ := c.service("kept"); after.ResourceVersion != before.ResourceVersion {
		t.Error("the Service was written")
	}
	if n := c.nodes()[servers[2].Name]; n.Spec.ProviderID != "" {
		t.Error("the Node was written")
	}
	if s, _ := c.service("new"); len(s.Finalizers) > 0 {
		t.Error("the Service got a finalizer")
	}
	if now := c.holder(mainLease); now != holder {
		t.Errorf("the lease was taken by %s", now)
	}
}
