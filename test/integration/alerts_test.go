package integration

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/manifests"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
	"github.com/isthmus-cloud/isthmus/webhooks/certs/certstest"
)

// scene is a cluster and a cloud in which something goes wrong.
type scene struct {
	*cluster
	sim     *ossim.Sim
	p       *process
	servers []ossim.Server
	conf    string
	// args are the manager's, beside the fault's.
	args []string
}

// seeded is a fault, and the alerts that it sets off.
type seeded struct {
	name string
	args []string
	// before is how it stood before the manager ran; nil for nothing special.
	before func(s *scene)
	// ready waits until all went well; nil is until Nodes are initialized.
	ready func(s *scene)
	// fault makes it go wrong, and seen is the metric that grows, or is no longer 0, when it does.
	fault func(s *scene)
	seen  func(before, now scrape) bool
	// want fire. also may, as a consequence.
	want, also []string
}

// grew reports whether series have.
func grew(name string, parts ...string) func(before, now scrape) bool {
	return func(before, now scrape) bool { return now.sum(name, parts...) > before.sum(name, parts...) }
}

// mostly reports whether series have grown more than all others of the metric, which may have grown, too, before the fault.
func mostly(name string, parts ...string) func(before, now scrape) bool {
	return func(before, now scrape) bool {
		grown, all := now.sum(name, parts...)-before.sum(name, parts...), now.sum(name)-before.sum(name)
		return grown > 2*(all-grown)
	}
}

// isSet reports whether a gauge is not 0.
func isSet(name string) func(before, now scrape) bool {
	return func(_, now scrape) bool { return now.sum(name) > 0 }
}

// soon reports whether a time is known and less than three days from now.
func soon(name string) func(before, now scrape) bool {
	return func(_, now scrape) bool {
		at := now.sum(name)
		return at > 0 && at < float64(time.Now().Add(72*time.Hour).Unix())
	}
}

// late is a Node whose server there is.
func (s *scene) late() { s.register(s.servers[4:5], always(nodeState{ready: true})) }

// answering makes a service of the cloud answer with a status, to a Node that comes then.
func answering(f ossim.Fault) func(*scene) {
	return func(s *scene) {
		s.sim.AddFault(f)
		s.late()
	}
}

const kindsOf = "isthmus_cloud_calls_total"

func cloudFaults() []seeded {
	initialization := []string{"IsthmusNodeInitializationFailing"}
	met := `{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer", "debuginfo": null}`
	return []seeded{
		{name: "the cloud is down", fault: answering(ossim.Fault{Service: "compute", Status: http.StatusServiceUnavailable}),
			seen: mostly(kindsOf, `kind="Unavailable"`), want: []string{"IsthmusCloudFailing"}, also: initialization},
		{name: "a permission is missing", fault: answering(ossim.Fault{Service: "compute", Status: http.StatusForbidden}),
			seen: grew(kindsOf, `kind="Denied"`), want: []string{"IsthmusCloudDenied"}, also: initialization},
		{name: "the cloud throttles", fault: answering(ossim.Fault{Service: "compute", Status: http.StatusTooManyRequests, RetryAfter: time.Second}),
			seen: grew(kindsOf, `kind="Throttled"`), want: []string{"IsthmusCloudThrottled"}, also: initialization},
		{name: "a quota is met", fault: func(s *scene) {
			s.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Path: "/lbaas/loadbalancers", Status: http.StatusForbidden, Body: met})
			s.createService(loadBalancerService("web", httpPort(80)))
		}, seen: grew("service_controller_loadbalancer_sync_total", `result="failed"`), want: []string{"IsthmusQuotaExceeded", "IsthmusServiceSyncFailing"}},
		{name: "a Service cannot be served", fault: func(s *scene) {
			web := loadBalancerService("web", httpPort(80))
			web.Annotations = map[string]string{"loadbalancer.openstack.org/flavor-id": "no-such-flavor"}
			s.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodPost, Status: http.StatusBadRequest})
			s.createService(web)
		}, seen: grew("service_controller_loadbalancer_sync_total", `result="failed"`), want: []string{"IsthmusServiceSyncFailing"}},
		{name: "new credentials are broken", fault: func(s *scene) {
			if err := os.WriteFile(s.conf, []byte("[Global\n"), 0o600); err != nil {
				s.t.Fatal(err)
			}
		}, seen: isSet("isthmus_cloud_credential_reload_pending"), want: []string{"IsthmusCredentialsNotReloaded"}},
		{name: "the login ends soon", fault: func(s *scene) {
			c := s.sim.AddApplicationCredential("ends")
			s.sim.ExpireApplicationCredential(c.ID, time.Now().Add(48*time.Hour))
			if err := os.WriteFile(s.conf, []byte(s.sim.CloudConfWith(c)), 0o600); err != nil {
				s.t.Fatal(err)
			}
		}, seen: soon("isthmus_cloud_login_expiration_timestamp_seconds"), want: []string{"IsthmusLoginExpires"}},
		{name: "all instances are gone", args: []string{"--node-monitor-period=500ms"}, fault: func(s *scene) {
			for _, server := range s.servers {
				s.sim.DeleteServer(server.ID)
			}
			for name := range s.nodes() {
				s.setReady(name, corev1.ConditionFalse)
			}
		}, seen: isSet("isthmus_cloud_node_deletion_brake"), want: []string{"IsthmusNodeDeletionHeld"}},
		{name: "a Node is no instance", fault: func(s *scene) {
			s.create(nodeOf(ossim.Server{Name: "stranger"}, nodeState{ready: true}))
		}, seen: grew("workqueue_retries_total", `name="Nodes"`), want: initialization},
	}
}

func clusterFaults() []seeded {
	return []seeded{
		{name: "all Nodes with routes are gone", args: []string{"--route-reconciliation-period=1s"}, before: func(s *scene) {
			s.register(s.servers[:4], func(i int) nodeState {
				return nodeState{ready: true, initialized: true, podCIDRs: []string{podCIDR(i)}}
			})
		}, ready: func(s *scene) {
			eventually.True(s.t, "four routes", func() bool { return len(routesOf(s.sim)) == 4 })
		}, fault: func(s *scene) {
			if err := s.client.CoreV1().Nodes().DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				s.t.Fatal(err)
			}
		}, seen: isSet("isthmus_cloud_routes_held"), want: []string{"IsthmusRoutesHeld"}},
		{name: "there are no pod CIDRs left", args: []string{"--controllers=*,node-ipam-controller", "--allocate-node-cidrs", "--cluster-cidr=10.9.0.0/24",
			"--configure-cloud-routes=false"}, fault: func(*scene) {}, seen: isSet("node_ipam_controller_cidrset_usage_cidrs"), want: []string{"IsthmusPodCIDRsRunOut"}},
		{name: "somebody else has the lease", args: []string{"--leader-elect=true"}, before: func(s *scene) { s.occupyLease() }, ready: func(*scene) {}, fault: func(*scene) {}, seen: func(_, now scrape) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(now.values)), func(k string) bool { return strings.HasPrefix(k, "leader_election_master_status") })
		}, want: []string{"IsthmusNoLeader"}},
		{name: "the webhooks' certificate is not renewed", args: []string{"--webhooks=*"}, fault: func(s *scene) {
			cert, key := certstest.NewCA(s.t).Issue(s.t, time.Now().Add(48*time.Hour))
			for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
				if err := os.WriteFile(filepath.Join(s.p.certDir, name), content, 0o600); err != nil {
					s.t.Fatal(err)
				}
			}
		}, seen: soon("isthmus_webhook_certificate_expiration_timestamp_seconds"), want: []string{"IsthmusWebhookCertificateExpires"}},
	}
}

func webhookFaults() []seeded {
	return []seeded{
		{name: "the webhooks' CA is not renewed", args: []string{"--webhooks=*"}, fault: func(s *scene) {
			old, successor := certstest.NewCAUntil(s.t, time.Now().Add(48*time.Hour)), certstest.NewCA(s.t)
			if err := os.WriteFile(filepath.Join(s.p.certDir, "ca.crt"), slices.Concat(successor.PEM, old.PEM), 0o600); err != nil {
				s.t.Fatal(err)
			}
		}, seen: soon("isthmus_webhook_ca_expiration_timestamp_seconds"), want: []string{"IsthmusWebhookCAExpires"}},
		{name: "volumes cannot be asked about, and the policy is Fail", args: []string{"--webhooks=*", "--webhook-failure-policy=Fail"}, fault: func(s *scene) {
			s.sim.AddFault(ossim.Fault{Service: "volume", Status: http.StatusServiceUnavailable})
			if said := s.p.firstWord(); !strings.Contains(said, `"allowed":false`) {
				s.t.Errorf("the webhook says %s", said)
			}
		}, seen: grew("isthmus_webhook_request_duration_seconds_count", `outcome="error"`), want: []string{"IsthmusWebhookFailing"}, also: []string{"IsthmusCloudFailing"}},
		{name: "nobody may register the webhooks", args: []string{"--webhooks=*", "--webhook-registration=auto", "--webhook-url=https://127.0.0.1:1"}, before: func(s *scene) {
			s.register(s.servers[:4], always(nodeState{ready: true}))
			s.args = append(s.args, "--kubeconfig="+s.unregistered())
		}, fault: func(*scene) {}, seen: func(_, now scrape) bool {
			return now.sum("isthmus_webhook_registration_errors_total", `kind="ValidatingWebhookConfiguration"`) > 0
		}, want: []string{"IsthmusWebhookNotRegistered"}, also: []string{"IsthmusNoLeader"}}, // of the lease for the registration
		{name: "the process has ended", fault: func(s *scene) { s.p.end() }, seen: func(_, now scrape) bool { return now.values == nil }, want: []string{"IsthmusDown"}},
	}
}

// unregistered is the kubeconfig of an account that has the controller manager's rights, and may not register webhooks.
func (c *cluster) unregistered() (kubeconfig string) {
	c.t.Helper()
	const name = "isthmus-unregistered"
	rbac, err := manifests.RBAC()
	if err == nil {
		err = c.Apply(c.t.Context(), bytes.ReplaceAll(rbac, []byte(manifests.ServiceAccount), []byte(name)))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	config, err := c.ServiceAccountConfig(c.t.Context(), manifests.Namespace, name, time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	kubeconfig = filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, config); err != nil {
		c.t.Fatal(err)
	}
	return kubeconfig
}

// play lets a fault happen and returns what /metrics said before and after.
func (f *seeded) play(t *testing.T) (before, after scrape) {
	c, sim := newCluster(t), ossim.ForTest(t)
	s := &scene{cluster: c, sim: sim, servers: sim.SeedServers(ossim.Seed{Count: 5, NamePrefix: "node-"}), conf: write(t, "cloud.conf", sim.CloudConf())}
	if f.before != nil {
		f.before(s)
	} else {
		s.register(s.servers[:4], always(nodeState{ready: true}))
	}
	args := slices.Concat([]string{"--leader-elect=false"}, f.args, s.args)
	s.p = c.launchOn([]string{"--cloud-provider=openstack", "--cloud-config=" + s.conf}, args...)
	s.p.wait("/readyz", http.StatusOK)
	if f.ready != nil {
		f.ready(s)
	} else {
		eventually.Met(t, func() string {
			for name, n := range c.nodes() {
				if n.Spec.ProviderID == "" || len(n.Spec.Taints) > 0 && hasTaint(n, "node.cloudprovider.kubernetes.io/uninitialized") {
					return name + " is not initialized"
				}
			}
			return ""
		})
	}
	before = s.p.scrape()
	f.fault(s)
	eventually.True(t, "the metric that tells of the fault", func() bool {
		after = s.p.scrape()
		return f.seen(before, after)
	})
	return before, after
}

// TestEachAlertFiresOnItsFault plays each fault with the real binary, and has Prometheus judge what its metrics said.
func TestEachAlertFiresOnItsFault(t *testing.T) {
	faults := slices.Concat(cloudFaults(), clusterFaults(), webhookFaults())
	seen := map[string]bool{}
	for _, f := range faults {
		for _, name := range f.want {
			seen[name] = true
		}
		t.Run(f.name, func(t *testing.T) {
			before, after := f.play(t)
			promtool(t, before, after, true, firing(f.want, f.also))
		})
	}
	for _, r := range alertRules(t) {
		if !seen[r.Alert] {
			t.Errorf("no fault sets off %s", r.Alert)
		}
	}
}

// TestHealthyRun: no alert fires, and each panel of the dashboard shows something.
func TestHealthyRun(t *testing.T) {
	f := seeded{args: []string{"--leader-elect=true", "--webhooks=*"}, fault: func(s *scene) {
		s.late()
		s.createService(loadBalancerService("web", httpPort(80)))
		s.p.firstWord()
		if err := os.WriteFile(filepath.Join(s.p.certDir, "ca.crt"), certstest.NewCA(s.t).PEM, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}, seen: func(before, now scrape) bool {
		return isSet("isthmus_webhook_ca_expiration_timestamp_seconds")(before, now) && grew("service_controller_loadbalancer_address_delay_seconds_count")(before, now) &&
			grew("node_controller_cloud_provider_taint_removal_delay_seconds_count")(before, now)
	}}
	before, after := f.play(t)
	checks := firing(nil, nil)
	for _, at := range []string{"20m", "31m", "45m"} {
		quiet := firing(nil, nil)[0]
		quiet.At = at
		checks = append(checks, quiet)
	}
	for _, queries := range panelQueries(t) {
		for _, query := range queries {
			checks = append(checks, check{fmt.Sprintf("(count(%s) > bool 0)", query), fmt.Sprintf("%dm", judgedAt), []sample{{"{}", 1}}})
		}
	}
	promtool(t, before, after, false, checks)
}

// TestMonitoringNamesWhatThereIs: each metric and label that rules and panels name is in the reference of metrics, and each
// alert says what to do, in itself and in the guide.
func TestMonitoringNamesWhatThereIs(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/guides/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, found := range regexp.MustCompile("(?m)^\\| `([a-z_A-Z]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(string(reference), -1) {
		known[found[1]] = found[2]
	}
	metric, label := regexp.MustCompile(`\b(?:isthmus|service|node|workqueue|leader|rest)_[a-z_]+`), regexp.MustCompile(`([a-zA-Z_]+)(?:=~?|!~|!=)"`)
	examine := func(what, expr string) {
		names := metric.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", what)
		}
		for _, name := range names {
			labels, ok := known[name]
			for _, suffix := range []string{"_bucket", "_count", "_sum"} { // of a histogram
				if base, cut := strings.CutSuffix(name, suffix); cut && !ok {
					labels, ok = known[base]
				}
			}
			if !ok {
				t.Errorf("%s names %s, which is not in the reference of metrics", what, name)
			}
			for _, found := range label.FindAllStringSubmatch(expr, -1) {
				if !strings.Contains(labels, "`"+found[1]+"`") {
					t.Errorf("%s asks for the label %s, which %s has not", what, found[1], name)
				}
			}
		}
	}
	for _, r := range alertRules(t) {
		examine(r.Alert, r.Expr.String())
		anchor := strings.ToLower(r.Alert)
		url := r.Annotations["runbook_url"]
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !strings.HasSuffix(url, "/docs/guides/monitoring.md#"+anchor) {
			t.Errorf("%s says not what it is, what to do next and where more stands: %v", r.Alert, r.Annotations)
		}
		if !strings.Contains(string(guide), "\n### "+r.Alert+"\n") || !strings.Contains(string(guide), "(#"+anchor+")") {
			t.Errorf("docs/guides/monitoring.md has no section and row of %s", r.Alert)
		}
	}
	for title, queries := range panelQueries(t) {
		for _, query := range queries {
			examine(title, query)
		}
	}
}
