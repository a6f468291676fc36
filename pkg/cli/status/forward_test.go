package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/utils/ptr"

	"github.com/isthmus-cloud/isthmus/manifests"
	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
)

// kubelet is one that leads to the port of to, by the code that kubelets have for that, whatever the pod, unless it is in pods.
type kubelet struct {
	t     *testing.T
	to    string
	pods  map[string]string
	ports atomic.Int32 // the last pod's port that was asked for
	begun atomic.Int32 // forwardings
	stuck chan struct{}
}

func (k *kubelet) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	k.ports.Store(port)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", cmp.Or(k.pods[pod], k.to))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.Copy(conn, stream) }()
	_, err = io.Copy(stream, conn)
	return err
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pod, ok := strings.CutPrefix(r.URL.Path, "/portForward/kube-system/")
	if !ok {
		k.t.Errorf("the kubelet is asked for %s", r.URL.Path)
		http.NotFound(w, r)
		return
	}
	k.begun.Add(1)
	if k.stuck != nil {
		<-k.stuck
	}
	portforward.ServePortForward(w, r, k, pod, "", nil, time.Minute, time.Minute, portforward.SupportedProtocols)
}

// leads makes the Node of a kubelet, and on it the pod of a leader whose port h serves.
func (w *world) leads(h http.Handler, hostNetwork bool) (*kubelet, *atomic.Value) {
	w.t.Helper()
	var got atomic.Value // the last Authorization header
	port := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		h.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(port.Close)
	k := &kubelet{t: w.t, to: port.Listener.Addr().String()}
	server := httptest.NewTLSServer(k)
	w.t.Cleanup(server.CloseClientConnections)
	at, err := url.Parse(server.URL)
	w.must(err)
	number, err := strconv.Atoi(at.Port())
	w.must(err)

	nodes, accounts := w.Client.CoreV1().Nodes(), w.Client.CoreV1().ServiceAccounts("kube-system")
	node, err := nodes.Create(w.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "status-host"}}, metav1.CreateOptions{})
	w.must(err)
	w.clean(nodes.Delete, node.Name)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.Hostname()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number) //nolint:gosec // it is a port
	_, err = nodes.UpdateStatus(w.t.Context(), node, metav1.UpdateOptions{})
	w.must(err)
	_, err = accounts.Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: manifests.StatusReader}}, metav1.CreateOptions{})
	w.must(err)
	w.clean(accounts.Delete, manifests.StatusReader)
	w.pod("leader", "cloud-controller-manager", hostNetwork, nil)
	w.pod("webhooks", "cloud-webhook-manager", hostNetwork, nil)
	return k, &got
}

// pod makes one of a component on the Node status-host, as edit wants it, and with the status that it has then.
func (w *world) pod(name, component string, hostNetwork bool, edit func(*corev1.Pod)) {
	w.t.Helper()
	pods := w.Client.CoreV1().Pods("kube-system")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "isthmus", "app.kubernetes.io/component": component}}}
	pod.Spec.NodeName, pod.Spec.HostNetwork, pod.Spec.AutomountServiceAccountToken = "status-host", hostNetwork, ptr.To(false)
	pod.Spec.Containers = []corev1.Container{{Name: "a", Image: "a"}, {Name: "b", Image: "b",
		Ports: []corev1.ContainerPort{{Name: "webhook", ContainerPort: 10260}, {Name: "https", ContainerPort: 10299}}}}
	if edit != nil {
		edit(pod)
	}
	made, err := pods.Create(w.t.Context(), pod, metav1.CreateOptions{})
	w.must(err)
	w.clean(func(ctx context.Context, name string, o metav1.DeleteOptions) error {
		o.GracePeriodSeconds = ptr.To(int64(0))
		return pods.Delete(ctx, name, o)
	}, name)
	made.Status.Phase = cmp.Or(pod.Status.Phase, corev1.PodRunning)
	_, err = pods.UpdateStatus(w.t.Context(), made, metav1.UpdateOptions{})
	w.must(err)
}

// serves runs what answers at a port of a pod, and counts who asks with a token.
func (k *kubelet) serves(pod string, h http.Handler) *atomic.Int32 {
	var asked atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			asked.Add(1)
		}
		h.ServeHTTP(rw, r)
	}))
	k.t.Cleanup(s.Close)
	if k.pods == nil {
		k.pods = map[string]string{}
	}
	k.pods[pod] = s.Listener.Addr().String()
	return &asked
}

// On a host with managers of several clouds, each with a lease of its own, the one is shown that has the lease; one that has ended there
// is not asked.
func TestLeaderIsToldFromOthersOnItsHost(t *testing.T) {
	w := newWorld(t)
	k, _ := w.leads(replicaOf("status-host_x", true), true)
	w.lease("cloud-controller-manager", "status-host_x", noon)
	w.lease("status-other", "status-host_y", noon)
	w.lease("status-none", "status-host_z", noon)
	w.pod("evicted", "cloud-controller-manager", true, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	w.pod("first", "cloud-controller-manager", true, nil)
	evicted, first := k.serves("evicted", replicaOf("status-host_x", true)), k.serves("first", replicaOf("status-host_y", true))
	for lease, want := range map[string]string{"cloud-controller-manager": "status-host_x", "status-other": "status-host_y"} {
		if r := w.report("--leader-elect-resource-name", lease); r.Source != fromLeader || r.Leader != want {
			t.Errorf("lease %s: %+v", lease, r)
		}
	}
	if evicted.Load() != 0 || first.Load() != 2 {
		t.Errorf("the pods are asked %d and %d times", evicted.Load(), first.Load())
	}
	want := "pod kube-system/first leads by another lease, or since a moment ago: it is status-host_y, and not status-host_z"
	if r := w.report("--leader-elect-resource-name=status-none"); r.Source != fromCluster || !strings.Contains(r.NotAsked, want) {
		t.Errorf("%q", r.NotAsked)
	}
}

func TestPodsOfAHost(t *testing.T) {
	network := func(node string) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true, NodeName: node}}
	}
	named := func(name string) corev1.Pod { return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	mirror := func(p corev1.Pod) corev1.Pod {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		return p
	}
	for _, c := range []struct {
		host string
		pod  corev1.Pod
		want bool
	}{
		{"cp-1", network("cp-1"), true},
		{"cp-1", network("cp-1.example.com"), true},
		{"CP-1.example.com", network("cp-1"), true},
		{"cp-1.example.com", network("cp-1.example.org"), false},
		{"cp-1", network("cp-10"), false},
		{"cp-1", mirror(network("cp-1")), true},
		{"isthmus-a", named("isthmus-a"), true},
		{"isthmus-a", named("isthmus-a.b"), false},
		{"cp-1", mirror(named("cp-1")), false},                                                          // a worker's kubelet may make it
		{"cp-1", corev1.Pod{ObjectMeta: named("cp-1").ObjectMeta, Spec: network("worker").Spec}, false}, // its name is not its host's
	} {
		if got := runsAt(c.host, &c.pod); got != c.want {
			t.Errorf("host %s, pod %q on the network of %q: %t", c.host, c.pod.Name, c.pod.Spec.NodeName, got)
		}
	}
}

// Without flags the leader is asked, on the host's network or the pods', with nothing but an account's token.
func TestLeaderIsAskedByItsPod(t *testing.T) {
	for host, hostNetwork := range map[string]bool{"leader": false, "status-host": true} {
		t.Run(host, func(t *testing.T) {
			w := newWorld(t)
			k, got := w.leads(replicaOf(host+"_x", true), hostNetwork)
			w.lease("cloud-controller-manager", host+"_x", noon)
			r := w.report()
			if r.Source != fromLeader || r.NotAsked != "" || r.Status.Traffic.Waiting != 2 || k.ports.Load() != 10299 {
				t.Fatalf("report is %+v, of port %d", r, k.ports.Load())
			}
			sent, _ := got.Load().(string)
			review, err := w.Client.AuthenticationV1().TokenReviews().Create(t.Context(),
				&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimPrefix(sent, "Bearer ")}}, metav1.CreateOptions{})
			if err != nil || review.Status.User.Username != "system:serviceaccount:kube-system:isthmus-status-reader" || strings.Contains(sent, token) {
				t.Errorf("the leader got the token of %q (%v)", review.Status.User.Username, err)
			}
		})
	}
}

// A watch asks by one forwarding, and by another once that has ended or another leads.
func TestWatchKeepsItsPort(t *testing.T) {
	w := newWorld(t)
	answer := replicaOf("leader_x", true)
	k, _ := w.leads(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { answer.ServeHTTP(rw, r) }), false)
	w.lease("cloud-controller-manager", "leader_x", noon)
	ctx, end := context.WithCancel(t.Context())
	begun := []int32{}
	w.o.after = func(time.Duration) <-chan time.Time {
		begun = append(begun, k.begun.Load())
		switch len(begun) {
		case 2:
			answer = http.NotFoundHandler()
		case 3:
			answer = replicaOf("leader_x", true)
		case 4:
			end()
		}
		at := make(chan time.Time, 1)
		at <- noon
		return at
	}
	out, err := w.run(ctx, "--watch", "-o", "json")
	w.must(err)
	var sources []string
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var r report
		w.must(d.Decode(&r))
		sources = append(sources, r.Source)
	}
	if got, want := strings.Join(sources, " "), "leader leader cluster leader"; got != want || len(begun) != 4 || begun[1] != 1 || begun[2] != 1 || begun[3] != 2 {
		t.Errorf("looks were at %s, want %s; %d forwardings after each", got, want, begun)
	}
}

// What stands in the way is said, and what the API server knows is shown.
func TestLeaderCannotBeAskedByItsPod(t *testing.T) {
	w := newWorld(t)
	k, _ := w.leads(replica(false), false)
	w.lease("cloud-controller-manager", "leader_x", noon)
	w.lease("status-gone", "gone_x", noon)
	w.lease("status-webhooks", "webhooks_x", noon)
	ask := func(want string, args ...string) {
		t.Helper()
		if r := w.report(args...); r.Source != fromCluster || !strings.Contains(r.NotAsked, want) {
			t.Errorf("%q: %q, want %q", args, r.NotAsked, want)
		}
	}
	ask("nobody: there is no lease kube-system/status-none", "--leader-elect-resource-name=status-none")
	ask("namespace kube-system has no pod of the leader gone_x", "--leader-elect-resource-name=status-gone")
	ask("namespace kube-system has no pod of the leader webhooks_x", "--leader-elect-resource-name=status-webhooks")
	ask("there is no ServiceAccount kube-system/other, which the chart and the manifests make", "--leader-service-account=kube-system/other")
	ask("--leader-service-account is empty", "--leader-service-account=")
	if n := k.begun.Load(); n != 0 {
		t.Errorf("%d forwardings for nothing", n)
	}
	ask("the replica at pod kube-system/leader does not lead: cp-1_x does")
	k.to = "127.0.0.1:1"
	ask("connect: connection refused")
	if _, err := w.run(t.Context(), "--leader-service-account=x"); err == nil || !strings.Contains(err.Error(), "must be NAMESPACE/NAME") {
		t.Error(err)
	}
}

// forwarder is one of w's user.
func (w *world) forwarder(now func() time.Time) *forwarder {
	w.t.Helper()
	as, err := access.ParseAccount(accountFlag, manifests.Namespace+"/"+manifests.StatusReader)
	w.must(err)
	f, err := newForwarder(w.Config, as, now)
	w.must(err)
	w.t.Cleanup(f.close)
	return f
}

// A token is used for half of its life.
func TestTokenIsRenewed(t *testing.T) {
	w := newWorld(t)
	k, got := w.leads(replicaOf("leader_x", true), false)
	now := noon
	f := w.forwarder(func() time.Time { return now })
	sent := map[any]bool{}
	for i, pause := range []time.Duration{0, tokenLife/2 - time.Second, time.Second} {
		now = now.Add(pause)
		if _, err := f.ask(t.Context(), "leader_x"); err != nil {
			t.Fatal(err)
		}
		sent[got.Load()] = true
		if n := int(k.begun.Load()); n != 1+i/2 || len(sent) != n {
			t.Errorf("question %d: %d forwardings, %d tokens", i+1, n, len(sent))
		}
	}
}

// A leader that does not end its answer is given up, and nothing of the forwarding stays.
func TestLeaderDoesNotEndItsAnswer(t *testing.T) {
	w := newWorld(t)
	w.leads(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, `{"leader":"`)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done() // its server waits for that
	}), false)
	f := w.forwarder(w.o.now)
	f.config.Timeout = 100 * time.Millisecond
	if _, err := f.ask(t.Context(), "leader_x"); err == nil || !strings.Contains(err.Error(), "pod kube-system/leader: ") || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if f.conn != nil || f.leader != nil {
		t.Error("the forwarding is kept")
	}
}

// listening counts the TCP ports that this process listens on.
func listening(t *testing.T) int {
	t.Helper()
	inodes := map[string]bool{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	n := 0
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && inodes[to] {
			n++
		}
	}
	return n
}

// No port of this machine leads to the leader's: others on it have no way to that, and, when the forwarding ends, to the token.
func TestForwardingOpensNoPort(t *testing.T) {
	w := newWorld(t)
	w.leads(replicaOf("leader_x", true), false)
	f := w.forwarder(w.o.now)
	before := listening(t)
	if _, err := f.ask(t.Context(), "leader_x"); err != nil {
		t.Fatal(err)
	}
	if after := listening(t); before == 0 || after != before || f.conn == nil {
		t.Errorf("%d ports, %d before", after, before)
	}
}

// A kubelet that hangs is not asked again and again.
func TestForwardingHangs(t *testing.T) {
	w := newWorld(t)
	k, _ := w.leads(replicaOf("leader_x", true), false)
	k.stuck = make(chan struct{})
	f := w.forwarder(w.o.now)
	f.timeout = time.Millisecond
	for _, want := range []string{"has not answered after 1ms", "has still not answered", "has still not answered"} {
		if _, err := f.ask(t.Context(), "leader_x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	close(k.stuck)
	if f.begun == nil {
		t.Fatal("what was given up is forgotten")
	}
	<-f.begun
	if n := k.begun.Load(); n > 1 {
		t.Errorf("%d forwardings", n)
	}
	f.begun, f.timeout = nil, time.Minute
	if s, err := f.ask(t.Context(), "leader_x"); err != nil || !s.Leads {
		t.Errorf("%v, %v after the kubelet works again", s, err)
	}
}
