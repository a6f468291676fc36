package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/cloudtest"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

// later is when doctor looks: no object is young any more.
const later = time.Hour

// set is a healthy set-up, with what a fault may change.
type set struct {
	*place
	*controlplane.ControlPlane
	t         *testing.T
	instances []cloudtest.Instance // of the Nodes a and b
	// bound is options.bound, nil for its own.
	bound func(context.Context, string, time.Duration) (context.Context, context.CancelFunc)
}

// newSet makes two Nodes and their instances, a Service with its address, those that others are to serve, and the lease of who leads.
func newSet(t *testing.T, p *place) *set {
	t.Helper()
	s := &set{place: p, ControlPlane: shared.Plane(t), t: t}
	rbac, err := manifests.RBAC()
	s.must(err)
	s.must(s.Apply(t.Context(), rbac))
	for _, name := range []string{"a", "b"} {
		i, err := p.MakeInstance(t.Context(), p.Provider+"-"+name)
		s.must(err)
		s.instances = append(s.instances, i)
		s.node(nodeOf(i))
	}
	s.service("served", "192.0.2.1")
	s.service("of-others", "", ofClass("example.com/others"))
	if p.Provider == "aws" {
		s.service("of-another", "", func(v *corev1.Service) {
			v.Annotations = map[string]string{"service.beta.kubernetes.io/aws-load-balancer-type": "external"}
		})
	}
	s.lease(later)
	t.Cleanup(s.clean)
	return s
}

func (s *set) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// run calls doctor with a configuration, and returns what it wrote, and its exit code.
func (s *set) run(conf string, args ...string) (stdout string, code int) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "cloud.conf")
	if conf != "" {
		s.must(os.WriteFile(file, []byte(conf), 0o600))
	}
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	s.must(controlplane.WriteKubeconfig(kubeconfig, s.Config))
	o := options{clock: clocktesting.NewFakePassiveClock(time.Now().Add(later)), version: "v1.2.0", bound: bound}
	if s.bound != nil {
		o.bound = s.bound
	}
	cmd := command(&o)
	var out, problems bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"--kubeconfig", kubeconfig, "--cloud-provider", s.Provider, "--cloud-config", file, "--request-timeout", "10s"}, args...))
	err := cmd.ExecuteContext(s.t.Context())
	if e, ok := err.(output.Exit); ok { //nolint:errorlint // it is never wrapped
		return out.String(), int(e)
	}
	s.must(err)
	return out.String(), 0
}

// TestMisconfigurations: each one is found on each cloud, by the check and about the object that the table tells, and nothing on a
// healthy set-up.
func TestMisconfigurations(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *place{"openstack": openStack, "aws": amazon, "vsphere": vCenter, "vsphere-paravirtual": superVisor} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, start(t))
			t.Run("healthy", func(t *testing.T) {
				s.t = t
				if out, code := s.run(s.Conf); code != 0 || strings.Contains(out, "→") {
					t.Errorf("exit code %d:\n%s", code, out)
				}
			})
			if name == "aws" {
				t.Run("healthy with the policy that ships", func(t *testing.T) {
					s.t = t
					without("nothing")(s)
					if out, code := s.run(s.Conf); code != 0 || strings.Contains(out, "→") || !strings.Contains(out, "did not look at quotas of load balancers") {
						t.Errorf("exit code %d:\n%s", code, out)
					}
				})
			}
			for _, f := range allFaults() {
				if !f.on(name) {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					s.t = t
					conf := s.Conf
					if f.conf != nil {
						conf = f.conf(s, conf)
					}
					if f.cluster != nil {
						f.cluster(s)
					}
					s.expect(conf, &f)
				})
			}
		})
	}
}

// expect fails the test unless doctor finds the fault, and says what to do.
func (s *set) expect(conf string, f *fault) {
	s.t.Helper()
	args := []string{"-o", "json"}
	if f.check != "permissions" { // some fifty questions, which others need no answer to
		args = append(args, "--skip=permissions")
	}
	if f.args != nil {
		args = append(args, f.args(s)...)
	}
	out, code := s.run(conf, args...)
	var r report
	s.must(json.Unmarshal([]byte(out), &r))
	is := func(x output.Finding) bool {
		return x.Check == f.check && strings.Contains(x.Object, f.object) && strings.Contains(x.Message, f.message) && x.Next != "" && (x.Severity == output.Error) == (f.code == 1)
	}
	if !slices.ContainsFunc(r.Findings, is) || code != f.code {
		s.t.Errorf("exit code %d, want %d and check %s about %q to say %q:\n%s", code, f.code, f.check, f.object, f.message, out)
	}
	for _, secret := range []string{wrongPassword, "password = " + ossim.UserPassword, "s3cret", os.Getenv("AWS_SECRET_ACCESS_KEY")} { // of each cloud
		if secret != "" && strings.Contains(out, secret) {
			s.t.Errorf("%q is in what was written:\n%s", secret, out)
		}
	}
}

func nodeOf(i cloudtest.Instance) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: i.Ref.NodeName, Labels: map[string]string{corev1.LabelTopologyZone: i.Zone}}, Spec: corev1.NodeSpec{ProviderID: i.Ref.ProviderID}}
	for _, a := range i.Addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	n.Status.NodeInfo.KubeletVersion = "v1.37.0"
	return n
}

// node creates a Node until the test ends.
func (s *set) node(n *corev1.Node) {
	s.t.Helper()
	_, err := s.Client.CoreV1().Nodes().Create(s.t.Context(), n, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error {
		return s.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
	})
}

func (s *set) undo(f func(context.Context) error) {
	t := s.t
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f(ctx); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

// service creates a Service until the test ends, with an address unless it is empty.
func (s *set) service(name, address string, edits ...func(*corev1.Service)) *corev1.Service {
	s.t.Helper()
	services := s.Client.CoreV1().Services("default")
	v := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, edit := range edits {
		edit(v)
	}
	v, err := services.Create(s.t.Context(), v, metav1.CreateOptions{})
	s.must(err)
	s.undo(func(ctx context.Context) error { return services.Delete(ctx, name, metav1.DeleteOptions{}) })
	if address != "" {
		v.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		v, err = services.UpdateStatus(s.t.Context(), v, metav1.UpdateOptions{})
		s.must(err)
	}
	return v
}
