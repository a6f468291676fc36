package integration

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloudauth"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// get reads path from the secure port, with the token if there is one.
func (r *running) get(path, token string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+r.address+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} //nolint:gosec // self-signed
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

func (r *running) wait(path string, status int) {
	r.t.Helper()
	eventually.Met(r.t, func() string {
		if got, body := r.get(path, ""); got != status {
			return fmt.Sprintf("%s answers %d %s, want %d", path, got, body, status)
		}
		return ""
	})
}

// account makes a ServiceAccount that may read paths, and returns a token of it.
func (c *cluster) account(name string, paths ...string) string {
	c.t.Helper()
	ctx := c.t.Context()
	create := metav1.CreateOptions{}
	if _, err := c.client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, create); err != nil {
		c.t.Fatal(err)
	}
	if len(paths) > 0 {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: paths, Verbs: []string{"get"}}}}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}}}
		if _, err := c.client.RbacV1().ClusterRoles().Create(ctx, role, create); err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, create); err != nil {
			c.t.Fatal(err)
		}
	}
	config, err := c.ServiceAccountConfig(ctx, "default", name, time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	return config.BearerToken
}

func TestSecurePort(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	reader, nobody := c.account("metrics-reader", "/metrics", "/configz", "/statusz", "/flagz", "/status"), c.account("nobody")
	r := c.startCCM(sim, "--cluster-name=blue")
	r.wait("/readyz", http.StatusOK)
	c.waitForLeader()
	for _, test := range []struct {
		path, token string
		want        int
	}{
		{"/healthz", "", 200},
		{"/livez", "", 200},
		{"/metrics", "", 401},
		{"/metrics", "nonsense", 401},
		{"/metrics", nobody, 403},
		{"/metrics", reader, 200},
		{"/configz", "", 401},
		{"/configz", nobody, 403},
		{"/configz", reader, 200},
		{"/statusz", "", 401},
		{"/statusz", nobody, 403},
		{"/statusz", reader, 200},
		{"/flagz", "", 401},
		{"/flagz", nobody, 403},
		{"/flagz", reader, 200},
		{"/status", "", 401},
		{"/status", nobody, 403},
		{"/status", reader, 200},
		{"/debug/pprof/", reader, 403},
		{"/", "", 401},
		{"/healthz/../metrics", "", 401},
		{"/readyz/cloud", "", 401}, // as in the framework, only the paths of --authorization-always-allow-paths are open
	} {
		if got, body := r.get(test.path, test.token); got != test.want {
			t.Errorf("%s: got %d %q, want %d", test.path, got, body, test.want)
		}
	}

	// Both registries, without a family twice.
	_, text := r.get("/metrics", reader)
	for _, want := range []string{"workqueue_depth", "rest_client_requests_total", "go_goroutines", "process_cpu_seconds_total",
		"node_controller_", "cloud_provider_", "running_managed_controllers"} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if n := strings.Count(text, "# TYPE go_goroutines "); n != 1 {
		t.Errorf("/metrics has go_goroutines %d times", n)
	}

	var shown map[string]struct {
		Kind            string
		KubeCloudShared struct{ ClusterName string }
	}
	_, text = r.get("/configz", reader)
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err)
	}
	config := shown["cloudcontrollermanager.config.k8s.io"]
	if config.Kind != "CloudControllerManagerConfiguration" || config.KubeCloudShared.ClusterName != "blue" {
		t.Errorf("/configz shows %s", text)
	}
	var ours map[string]struct{ CloudConfig map[string]map[string]string }
	if err := json.Unmarshal([]byte(text), &ours); err != nil {
		t.Fatal(err)
	}
	if global := ours["isthmus-cloud.github.io"].CloudConfig["Global"]; global["auth-url"] != sim.AuthURL() || global["password"] != cloudauth.Redacted {
		t.Errorf("/configz shows of cloud.conf %v", global)
	}
	for _, secret := range []string{ossim.UserPassword} {
		if strings.Contains(text, secret) {
			t.Errorf("/configz shows a secret")
		}
	}
}

func (c *cluster) holder(lease string) string {
	l, err := c.client.CoordinationV1().Leases("kube-system").Get(c.t.Context(), lease, metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// mainLease is the lease of all cloud controller managers.
const mainLease = "cloud-controller-manager"

func (c *cluster) waitForLeader() {
	c.t.Helper()
	eventually.Met(c.t, func() string {
		if c.holder(mainLease) == "" {
			return "nobody holds the lease " + mainLease
		}
		return ""
	})
}

// Two replicas: one leads, both are healthy and ready; when the leader ends it gives the
// lease away at once, and the other goes on.
func TestLeadershipPassesOn(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	const long = "--leader-elect-lease-duration=60s" // far longer than the test waits
	first := c.startCCM(sim, long)
	c.waitForLeader()
	second := c.startCCM(sim, long)
	first.wait("/readyz", http.StatusOK)
	second.wait("/readyz", http.StatusOK)
	second.wait("/healthz", http.StatusOK)

	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-", Zones: []string{"az1"}, Flavor: "m1.small"})
	c.register(servers[:1], always(nodeState{ready: true}))
	eventually.Met(t, func() string { return c.initialized(servers[:1]) })

	before := c.holder(mainLease)
	begin := time.Now()
	if err := first.Stop(); err != nil {
		t.Fatalf("the leader ended with: %v", err)
	}
	c.register(servers[1:], always(nodeState{ready: true}))
	eventually.Met(t, func() string { return c.initialized(servers) })
	t.Logf("the other replica took over in %s", time.Since(begin).Round(time.Millisecond))
	if after := c.holder(mainLease); after == before || after == "" {
		t.Errorf("the lease is held by %q, before by %q", after, before)
	}
}

// The lease is given up only when no call to the cloud is under way any more.
func TestNoCallOutlivesTheLease(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	remove := sim.AddFault(ossim.Fault{Service: "compute", Hang: true})
	defer remove()
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})
	c.register(servers, always(nodeState{ready: true}))
	r := c.startCCM(sim)
	eventually.Met(t, func() string {
		if sim.Count("compute", "") == 0 {
			return "the cloud was not asked"
		}
		return ""
	})
	if err := r.Stop(); err != nil {
		t.Fatalf("ended with: %v", err)
	}
	if h := c.holder(mainLease); h != "" {
		t.Errorf("the lease is still held by %q", h)
	}
	n := sim.Count("", "")
	<-time.After(500 * time.Millisecond)
	if after := sim.Count("", ""); after != n {
		t.Errorf("%d calls to the cloud after the end", after-n)
	}
}

// A cloud that fails is told, and takes neither readiness nor health away: webhooks are called
// through ready replicas only, and those that cannot ask the cloud can still say so.
func TestReadinessOutlivesTheCloud(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	r := c.startCCM(sim, "--leader-elect=false", "--authorization-always-allow-paths=/readyz*,/healthz")
	r.wait("/readyz/cloud", http.StatusOK)
	remove := sim.AddFault(ossim.Fault{Service: "identity", Status: 503})
	sim.ExpireTokens()
	servers := sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"})
	c.register(servers, always(nodeState{ready: true})) // makes the cloud be asked
	r.wait("/readyz/cloud", http.StatusInternalServerError)
	r.wait("/readyz", http.StatusOK)
	r.wait("/healthz", http.StatusOK)
	if _, body := r.get("/readyz", ""); !strings.Contains(body, "[!]cloud warns") || strings.Contains(body, sim.AuthURL()) {
		t.Errorf("/readyz says %q", body)
	}
	remove()
	r.wait("/readyz/cloud", http.StatusOK)
}

// Under leader migration each controller runs under its own lease.
func TestLeaderMigration(t *testing.T) {
	c, sim := newCluster(t), ossim.ForTest(t)
	servers := sim.SeedServers(ossim.Seed{Count: 2, NamePrefix: "node-", Zones: []string{"az1"}, Flavor: "m1.small"})
	c.register(servers[:1], always(nodeState{ready: true}))
	c.register(servers[1:], always(nodeState{initialized: true}))
	const second = "cloud-provider-extraction-migration"
	r := c.startCCM(sim, "--enable-leader-migration")
	eventually.Met(t, func() string { return c.initialized(servers[:1]) }) // main lease
	eventually.Met(t, func() string {
		if c.holder(second) == "" {
			return "nobody holds the second lease"
		}
		return ""
	})
	sim.DeleteServer(servers[1].ID)
	eventually.Met(t, func() string { // second lease: node lifecycle
		if _, ok := c.nodes()[servers[1].Name]; ok {
			return "the Node of a deleted server is still there"
		}
		return ""
	})
	if err := r.Stop(); err != nil {
		t.Fatalf("ended with: %v", err)
	}
	held := slices.DeleteFunc([]string{c.holder(mainLease), c.holder(second)}, func(h string) bool { return h == "" })
	if len(held) > 0 {
		t.Errorf("leases are still held by %v", held)
	}
}
