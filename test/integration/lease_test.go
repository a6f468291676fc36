package integration

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// lease is how leaders are elected in a test: as soon as this machine can keep to it, in the
// proportions of the defaults (15 s, 10 s, 2 s).
type lease struct {
	// pace is how long a replica took, just before, from its start to its end as the leader.
	pace time.Duration
	// duration is long beside the pace: who has lost the lease has a fifth of it to end.
	duration time.Duration
}

// measureLease runs a replica that leads and ends, and says which lease its pace allows.
func (c *cluster) measureLease() lease {
	c.t.Helper()
	begin := time.Now()
	r := c.startCCM(ossim.ForTest(c.t), "--controllers=cloud-node-lifecycle")
	c.waitForLeader()
	if err := r.Stop(); err != nil {
		c.t.Fatal(err)
	}
	pace := time.Since(begin)
	c.removeLeases()
	return lease{pace: pace, duration: max(6*time.Second, 10*pace).Round(time.Second)}
}

// args are the flags.
func (l lease) args() []string {
	return []string{"--leader-elect-lease-duration=" + l.duration.String(), "--leader-elect-renew-deadline=" + (l.duration * 2 / 3).String(),
		"--leader-elect-retry-period=" + (l.duration * 2 / 15).String()}
}

// link is a network between the cloud controller manager and the API server that can be
// cut: then connections stay, and nothing comes through any more.
type link struct {
	listener net.Listener
	to       string
	severed  chan struct{}
	closed   context.Context
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	l := &link{listener: listener, to: to, severed: make(chan struct{}), closed: ctx}
	t.Cleanup(func() {
		end()
		_ = listener.Close()
	})
	go l.serve()
	return l
}

func (l *link) cut() { close(l.severed) }

func (l *link) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		context.AfterFunc(l.closed, func() { _ = near.Close() })
		far, err := (&net.Dialer{}).DialContext(l.closed, "tcp", l.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		context.AfterFunc(l.closed, func() { _ = far.Close() })
		go l.carry(near, far)
		go l.carry(far, near)
	}
}

func (l *link) carry(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-l.severed:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			_ = to.Close()
			return
		}
	}
}

// through writes a kubeconfig like c's, whose way to the API server is a link.
func (c *cluster) through(t *testing.T) (*link, string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(t, server.Host)
	server.Host = l.listener.Addr().String()
	config.Host = server.String()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, config); err != nil {
		t.Fatal(err)
	}
	return l, file
}

// lastCall is when the cloud was asked last.
func lastCall(sim *ossim.Sim) time.Time {
	var last time.Time
	for _, r := range sim.Requests() {
		if r.Time.After(last) {
			last = r.Time
		}
	}
	return last
}

// busy makes a Node of c ask the cloud all the time.
func (c *cluster) busy(args ...string) (*ossim.Sim, *running) {
	t := c.t
	t.Helper()
	sim := ossim.ForTest(t)
	c.register(sim.SeedServers(ossim.Seed{Count: 1, NamePrefix: "node-"}), always(nodeState{initialized: true}))
	r := c.startCCM(sim, append([]string{"--controllers=cloud-node-lifecycle"}, args...)...)
	eventually.Met(t, func() string {
		if sim.Count("compute", "") < 5 {
			return "the cloud is not asked"
		}
		return ""
	})
	return sim, r
}

// wantLost waits for r's end, which must be an error.
func (r *running) wantLost(t *testing.T) {
	t.Helper()
	eventually.Received(t, "it ends without the lease", r.Ended)
	if r.Stop() == nil {
		t.Error("it ended without an error")
	}
}

// When the API server cannot be reached any more, nothing acts beyond the time at which
// another replica may take the lease.
func TestNothingActsBeyondTheLease(t *testing.T) {
	c := newCluster(t)
	lease := c.measureLease()
	l, kubeconfig := c.through(t)
	sim, r := c.busy(append(lease.args(), "--kubeconfig="+kubeconfig)...)
	l.cut()
	at := time.Now()
	r.wantLost(t)
	after, active := time.Since(at), lastCall(sim).Sub(at)
	t.Logf("the lease lasts %s, the cloud was asked last %s after the cut, the end came after %s", lease.duration, active.Round(time.Millisecond), after.Round(time.Millisecond))
	if active <= 0 {
		t.Error("the cloud was not asked after the cut: this test would show nothing")
	}
	if active > lease.duration { // when the process is gone matters to nobody, and depends on the machine
		t.Errorf("the cloud was asked %s after the last possible renewal, the lease lasts %s", active, lease.duration)
	}
}

// When somebody else holds the lease, everything ends and the lease stays theirs.
func TestLeaseTakenAway(t *testing.T) {
	c := newCluster(t)
	sim, r := c.busy(c.measureLease().args()...)
	c.takeLease()
	r.wantLost(t)
	if h := c.holder(mainLease); h != "somebody else" {
		t.Errorf("the lease is held by %q", h)
	}
	n := sim.Count("", "")
	<-time.After(500 * time.Millisecond)
	if after := sim.Count("", ""); after != n {
		t.Errorf("%d calls to the cloud after the end", after-n)
	}
	if status, _ := r.get("/healthz", ""); status == http.StatusOK {
		t.Error("the secure port is still served")
	}
}

// occupyLease makes somebody else hold the lease, before anybody asks for it, until the test ends.
func (c *cluster) occupyLease() {
	c.t.Helper()
	now := ptr.To(metav1.NowMicro())
	if _, err := c.client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(c.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: mainLease}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("somebody else"),
			LeaseDurationSeconds: ptr.To(int32(3600)), AcquireTime: now, RenewTime: now},
	}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// takeLease makes somebody else hold the lease until the test ends.
func (c *cluster) takeLease() {
	c.t.Helper()
	ctx := c.t.Context()
	leases := c.client.CoordinationV1().Leases("kube-system")
	eventually.Met(c.t, func() string {
		l, err := leases.Get(ctx, mainLease, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To("somebody else"), LeaseDurationSeconds: ptr.To(int32(3600)),
			AcquireTime: ptr.To(metav1.NowMicro()), RenewTime: ptr.To(metav1.NowMicro()), LeaseTransitions: l.Spec.LeaseTransitions}
		if _, err = leases.Update(ctx, l, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}
