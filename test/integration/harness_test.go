package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/inprocess"
)

// plane is a control plane for tests that only need the API.
type plane struct {
	*controlplane.ControlPlane
	dir string
	// kubeconfig acts as the ServiceAccount of the manifests, with its rights and no others.
	kubeconfig string
}

var planes = controlplane.Pool[*plane]{New: newPlane, After: compareRoles}

// parallel is how many tests run side by side, unless -parallel says otherwise: they mostly wait.
const parallel = 4

var showLogs = flag.Bool("controller-logs", false, "show what the controllers log")

func TestMain(m *testing.M) {
	code := planes.Run(m, parallel, showLogs)
	if err := removeBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// cluster is a control plane as one test sees it: without Nodes, Services and leases when the
// test begins and ends.
type cluster struct {
	*plane
	t      *testing.T
	client *kubernetes.Clientset
	// env is what binaries have in their environment, beside what is there.
	env []string
	// factory makes the cloud of what runs in this process; nil is OpenStack's.
	factory cloud.Factory
}

// newCluster makes t run side by side with other tests that have a cluster.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	p := planes.Take(t)
	c := &cluster{t: t, client: p.Client, plane: p}
	t.Cleanup(c.clean)
	return c
}

func newPlane() (*plane, error) {
	cp, err := controlplane.Run(controlplane.Options{Audit: true})
	if err != nil {
		return nil, err
	}
	p := &plane{ControlPlane: cp}
	if err := p.authorize(); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Stop ends it.
func (p *plane) Stop() error { return errors.Join(p.ControlPlane.Stop(), os.RemoveAll(p.dir)) }

// authorize applies the manifests' RBAC and writes the kubeconfig.
func (p *plane) authorize() (err error) {
	if p.dir, err = os.MkdirTemp("", "isthmus-integration-"); err != nil {
		return err
	}
	p.kubeconfig = filepath.Join(p.dir, "kubeconfig")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, part := range []func() ([]byte, error){manifests.RBAC, manifests.SelfManagedRBAC} {
		rbac, err := part()
		if err != nil {
			return err
		}
		if err := p.Apply(ctx, rbac); err != nil {
			return err
		}
	}
	roles, err := fs.ReadFile(manifests.FS(), kubeletServingRoles)
	if err == nil {
		err = p.Apply(ctx, append(roles, kubelets...))
	}
	if err != nil {
		return err
	}
	config, err := p.ServiceAccountConfig(ctx, manifests.Namespace, manifests.ServiceAccount, time.Hour)
	if err != nil {
		return err
	}
	return controlplane.WriteKubeconfig(p.kubeconfig, config)
}

// clean removes what tests leave in the cluster.
func (c *cluster) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		c.t.Errorf("remove Nodes: %v", err)
	}
	c.removeLeases()
	if err := c.client.CoreV1().Events("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		c.t.Errorf("remove Events: %v", err)
	}
	if err := c.client.CertificatesV1().CertificateSigningRequests().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		c.t.Errorf("remove CertificateSigningRequests: %v", err)
	}
	services, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Errorf("list Services: %v", err)
		return
	}
	for _, s := range services.Items {
		if s.Name == "kubernetes" {
			continue
		}
		_, err := c.client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		err = errors.Join(ignoreNotFound(err), ignoreNotFound(c.client.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})))
		if err != nil {
			c.t.Errorf("remove Service %s: %v", s.Name, err)
		}
	}
}

// removeLeases removes the leases that leaders hold, or have left to run out: their holders
// would be taken for those that are to come.
func (c *cluster) removeLeases() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, lease := range []string{mainLease, migrationLease} {
		if err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, lease, metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
			c.t.Errorf("remove Lease %s: %v", lease, err)
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// nodeState is how a kubelet has registered a Node.
type nodeState struct {
	ready bool
	// initialized Nodes have their provider ID and no taint, as a run before has left them.
	initialized bool
	podCIDRs    []string
}

// register creates a Node for each server, as kubelets with --cloud-provider=external do.
func (c *cluster) register(servers []ossim.Server, state func(i int) nodeState) {
	c.t.Helper()
	work := make(chan int)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for i := range work {
				if _, err := c.client.CoreV1().Nodes().Create(c.t.Context(), nodeOf(servers[i], state(i)), metav1.CreateOptions{}); err != nil {
					c.t.Errorf("create Node: %v", err)
				}
			}
		})
	}
	for i := range servers {
		work <- i
	}
	close(work)
	wg.Wait()
}

// create creates a Node.
func (c *cluster) create(n *corev1.Node) {
	c.t.Helper()
	if _, err := c.client.CoreV1().Nodes().Create(c.t.Context(), n, metav1.CreateOptions{}); err != nil {
		c.t.Fatalf("create Node: %v", err)
	}
}

// setReady sets a Node's condition Ready, as its kubelet does.
func (c *cluster) setReady(name string, status corev1.ConditionStatus) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	if _, err := c.client.CoreV1().Nodes().Patch(c.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		c.t.Fatalf("set Node %s ready: %v", name, err)
	}
}

func nodeOf(server ossim.Server, state nodeState) *corev1.Node {
	status := corev1.ConditionFalse
	if state.ready {
		status = corev1.ConditionTrue
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: server.Name},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: server.Name}},
		},
	}
	if len(state.podCIDRs) > 0 {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = state.podCIDRs[0], state.podCIDRs
	}
	if state.initialized {
		n.Spec.ProviderID = "openstack:///" + server.ID
		for _, a := range server.Addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
		}
	} else {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

func always(s nodeState) func(int) nodeState { return func(int) nodeState { return s } }

// nodes returns all Nodes by name.
func (c *cluster) nodes() map[string]corev1.Node {
	c.t.Helper()
	list, err := c.client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatalf("list Nodes: %v", err)
	}
	out := map[string]corev1.Node{}
	for _, n := range list.Items {
		out[n.Name] = n
	}
	return out
}

func hasTaint(n corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

// running is a cloud controller manager that runs in this process.
type running struct {
	*inprocess.Manager // nil of one that runs as a process
	t                  *testing.T
	address            string
}

// fastClock is a clock that runs ten times as fast, so that what decorate waits for and
// remembers takes a tenth of the time.
type fastClock struct {
	clock.RealClock
	start time.Time
}

const fast = 10

func (c fastClock) Now() time.Time                         { return c.start.Add(fast * time.Since(c.start)) }
func (c fastClock) Since(t time.Time) time.Duration        { return c.Now().Sub(t) }
func (c fastClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(d / fast) }
func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / fast) }

// startCCM runs the cloud controller manager with the real OpenStack provider against sim,
// with short periods and args, until the test ends or stop is called.
func (c *cluster) startCCM(sim *ossim.Sim, args ...string) *running {
	c.t.Helper()
	return c.start(sim.CloudConf(), clock.RealClock{}, args)
}

// startCCMWith is startCCM with a cloud.conf of the test's.
func (c *cluster) startCCMWith(conf string, args ...string) *running {
	c.t.Helper()
	return c.start(conf, clock.RealClock{}, args)
}

// startFastCCM is startCCM with a decorated cloud that lives ten times as fast.
func (c *cluster) startFastCCM(sim *ossim.Sim, args ...string) *running {
	c.t.Helper()
	return c.start(sim.CloudConf(), fastClock{start: time.Now()}, args)
}

func (c *cluster) start(content string, clk clock.Clock, args []string) *running {
	c.t.Helper()
	const timeout = 10 * time.Second // of any clock: a busy machine's simulators take their time
	m := inprocess.Start(c.t, inprocess.Options{
		CloudConf: content, Kubeconfig: c.kubeconfig, RequestTimeout: timeout, Factory: c.factory,
		Decorate: caller.Options{Clock: clk, Reads: caller.Policy{BackoffBase: time.Millisecond, Deadline: 5 * timeout}},
		Args: append([]string{
			"--cluster-cidr=10.244.0.0/16",
			"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=200ms",
			"--node-monitor-period=100ms", "--route-reconciliation-period=200ms",
		}, args...),
	})
	return &running{t: c.t, address: m.Address, Manager: m}
}
