package orphans

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

// world is a simulated OpenStack beside a real API server.
type world struct {
	*controlplane.ControlPlane
	t        *testing.T
	sim      *ossim.Sim
	provider *decorate.Provider // as the controller manager has it
	cluster  cloud.Cluster
	flags    []string
	// gap and skew are the command's, 0 for its own.
	gap, skew time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{ControlPlane: shared.Plane(t), t: t, sim: ossim.ForTest(t, ossim.Options{StateDelay: 3 * time.Millisecond})}
	w.reach("openstack", w.sim.ConfFile(t, ""), "kubernetes")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// made makes what a Service of a cluster has in the cloud.
func (w *world) made(cluster cloud.Cluster, name string, edits ...func(*cloud.LoadBalancerSpec)) {
	w.t.Helper()
	spec := &cloud.LoadBalancerSpec{
		LoadBalancerRef: cloud.LoadBalancerRef{Cluster: cluster, Namespace: "default", Name: name, UID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(cluster.UID+name)).String()},
		Ports:           []cloud.LoadBalancerPort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
	}
	for _, edit := range edits {
		edit(spec)
	}
	for {
		_, err := w.provider.LoadBalancers.Ensure(w.t.Context(), spec)
		if cloud.KindOf(err) != cloud.KindRetryAfter {
			w.must(err)
			return
		}
	}
}

// service creates a Service until the test ends.
func (w *world) service(name string) {
	w.t.Helper()
	services := w.Client.CoreV1().Services("default")
	_, err := services.Create(w.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	w.must(err)
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			w.t.Errorf("clean up: %v", err)
		}
	})
}

// run calls the command as somebody who answers its questions. It returns what it wrote, and its exit code.
func (w *world) run(answers string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	return w.runWith(w.t.Context(), strings.NewReader(answers), answers != "", args...)
}

func (w *world) runWith(ctx context.Context, answers io.Reader, terminal bool, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	cmd := command(&options{isTerminal: func(io.Reader) bool { return terminal }, gap: cmp.Or(w.gap, shortestGap), skew: cmp.Or(w.skew, skew)})
	var out, problems bytes.Buffer
	cmd.SetIn(answers)
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append(args, w.flags...))
	err := cmd.ExecuteContext(ctx)
	if e, ok := errors.AsType[output.Exit](err); ok {
		return out.String(), problems.String(), int(e)
	}
	if err != nil {
		return out.String(), err.Error(), 2
	}
	return out.String(), problems.String(), 0
}

func (w *world) names() []string {
	var out []string
	for _, i := range w.sim.Snapshot().LoadBalancers {
		out = append(out, i.Name)
	}
	slices.Sort(out)
	return out
}

const prefix = "kube_service_kubernetes_default_"

// TestOrphansAreOursWithoutAnOwner: neither what a Service has, nor another cluster's of the same name, and nothing is changed.
func TestOrphansAreOursWithoutAnOwner(t *testing.T) {
	w := newWorld(t)
	other := cloud.Cluster{Name: "kubernetes", UID: "ffffffff-0000-4000-8000-000000000002"}
	w.service("web")
	for _, name := range []string{"web", "web2"} {
		w.made(w.cluster, name)
	}
	w.made(other, "theirs")
	w.sim.ResetRequests()
	out, stderr, code := w.run("", "-o", "json")
	var r struct{ Orphans []orphan }
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	if len(r.Orphans) != 1 || r.Orphans[0].Service != "default/web2" || r.Orphans[0].Name != prefix+"web2" || r.Orphans[0].Created == nil || len(r.Orphans[0].Addresses) == 0 {
		t.Errorf("orphans: %s", out)
	}
	if n := w.sim.Mutations(); n != 0 {
		t.Errorf("%d changing calls", n)
	}
	if out, _, _ := w.run(""); !strings.Contains(out, "default/web2") || strings.Contains(out, "theirs") {
		t.Errorf("table:\n%s", out)
	}
}

// TestDeleteAsksAboutEach: what the answer is yes to goes, all else stays.
func TestDeleteAsksAboutEach(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.made(w.cluster, name)
	}
	w.made(cloud.Cluster{Name: "kubernetes", UID: "another"}, "d")
	_, stderr, code := w.run("maybe\nyes\n", "--delete", "--not-restored") // and no answer to the third
	if n := strings.Count(stderr, "[y/N]"); n != 3 || code != 0 {
		t.Errorf("%d questions, exit code %d:\n%s", n, code, stderr)
	}
	if got := w.names(); len(got) != 3 {
		t.Errorf("left: %q", got)
	}
	out, stderr, code := w.run("", "--delete", "--yes", "--not-restored")
	if got := w.names(); !slices.Equal(got, []string{prefix + "d"}) || code != 0 || strings.Count(out, string(deleted)) != 2 {
		t.Errorf("left: %q, exit code %d:\n%s%s", got, code, out, stderr)
	}
}

// killer answers yes, and ends the command with its second answer.
type killer struct {
	answers int
	kill    context.CancelFunc
}

func (k *killer) Read(to []byte) (int, error) {
	if k.answers++; k.answers == 2 {
		k.kill()
	}
	return copy(to, "yes\n"), nil
}

// mute ends the command in place of an answer, and gives none until the test ends.
type mute struct {
	kill  context.CancelFunc
	ended <-chan struct{}
}

func (m *mute) Read([]byte) (int, error) {
	m.kill()
	<-m.ended
	return 0, io.EOF
}

// TestInterruptedQuestionIsANo: who presses Ctrl-C at a question need not answer it, nor the others.
func TestInterruptedQuestionIsANo(t *testing.T) {
	in := &stub{all: []cloud.Owned{{Kind: "load balancer", ID: "1", Mark: cloud.Mark{ClusterUID: "u", Service: "default/a"}}, {Kind: "load balancer", ID: "2", Mark: cloud.Mark{ClusterUID: "u", Service: "default/b"}}}}
	var all []*orphan
	for _, x := range in.all {
		all = append(all, &orphan{ID: x.ID, owned: x})
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	var told bytes.Buffer
	r := &remover{inventory: in, told: &told, timeout: time.Minute, answers: bufio.NewReader(&mute{kill, t.Context().Done()})}
	if stays := r.run(ctx, all); !stays || all[0].Outcome != kept || all[1].Outcome != kept || len(in.removed) > 0 || strings.Count(told.String(), "[y/N]") != 1 {
		t.Errorf("stays %t: %+v %+v; removed %q: %s", stays, all[0], all[1], in.removed, told.String())
	}
}

// TestDeletionGoesOnAfterACrash: the command ends between two deletions, or the second one fails. The next call deletes the rest, and nothing else.
func TestDeletionGoesOnAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.service("stays")
	for _, name := range []string{"a", "b", "c", "stays"} {
		w.made(w.cluster, name)
	}
	w.made(cloud.Cluster{Name: "kubernetes", UID: "another"}, "theirs")
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	out, stderr, code := w.runWith(ctx, &killer{kill: kill}, true, "--delete", "--not-restored")
	if n := strings.Count(out, string(deleted)); code != 1 || n != 1 || len(w.names()) != 4 {
		t.Errorf("exit code %d, %d deleted, left %q: %s%s", code, n, w.names(), out, stderr)
	}
	remove := w.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodDelete, Status: http.StatusForbidden, Times: 1})
	out, stderr, code = w.run("", "--delete", "--yes", "--not-restored")
	if code != 1 || strings.Count(out, string(failed)) != 1 || strings.Count(out, string(deleted)) != 1 || len(w.names()) != 3 {
		t.Errorf("exit code %d, left %q: %s%s", code, w.names(), out, stderr)
	}
	remove()
	if out, stderr, code = w.run("", "--delete", "--yes", "--not-restored"); code != 0 || strings.Count(out, string(deleted)) != 1 {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	if got := w.names(); !slices.Equal(got, []string{prefix + "stays", prefix + "theirs"}) {
		t.Errorf("left: %q", got)
	}
	w.sim.ResetRequests()
	if out, stderr, code = w.run("", "--delete", "--yes", "--not-restored"); code != 0 || w.sim.Mutations() != 0 {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
}

// TestDeleteNeedsSomebodyToAnswer.
func TestDeleteNeedsSomebodyToAnswer(t *testing.T) {
	w := newWorld(t)
	w.made(w.cluster, "a")
	w.sim.ResetRequests()
	if _, stderr, code := w.run("", "--delete"); code != 2 || !strings.Contains(stderr, "--yes") || len(w.sim.Requests()) != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	if _, stderr, code := w.run("", "--yes", "-o", "xml", "--delete-timeout", "0s"); code != 2 || strings.Count(stderr, "\n") != 2 {
		t.Errorf("exit code %d, want three problems: %s", code, stderr)
	}
}

// TestDeleteRefusesWhereTheAPIServerLooksRestored: it holds nothing as young as the load balancer until something is made.
func TestDeleteRefusesWhereTheAPIServerLooksRestored(t *testing.T) {
	w := newWorld(t)
	w.made(w.cluster, "a")
	in := &aged{Inventory: w.provider.Inventory, by: 24 * time.Hour}
	for _, c := range []struct {
		by   time.Duration
		want outcome
	}{{24 * time.Hour, refused}, {-24 * time.Hour, refused}, {-2 * time.Minute, deleted}} {
		in.by = c.by
		all, err := find(t.Context(), w.Client, in, w.cluster)
		w.must(err)
		if len(all) != 1 {
			t.Fatalf("orphans: %+v", all)
		}
		h := &history{gap: shortestGap, skew: skew}
		h.cluster = all[0].owned.Created.Add(-in.by).Add(-time.Hour)
		for d := -time.Hour; d <= 0; d += 10 * time.Minute {
			at := all[0].owned.Created.Add(-in.by).Add(d)
			h.writes = append(h.writes, moment{at, uint64(2*time.Hour + d), at}) //nolint:gosec // not negative
		}
		h.sort()
		r := &remover{client: w.Client, inventory: in, cluster: w.cluster, told: io.Discard, timeout: time.Minute, history: h}
		if stays := r.run(t.Context(), all); all[0].Outcome != c.want || stays != (c.want != deleted) || all[0].Outcome == refused != (all[0].Kept != "") {
			t.Errorf("by %s: %s %s, want %s", c.by, all[0].Outcome, all[0].Kept, c.want)
		}
	}
}

// aged tells that all was made later.
type aged struct {
	cloud.Inventory
	by time.Duration
}

func (a *aged) Owned(ctx context.Context, c cloud.Cluster) ([]cloud.Owned, error) {
	all, err := a.Inventory.Owned(ctx, c)
	for i := range all {
		all[i].Created = all[i].Created.Add(a.by)
	}
	return all, err
}

// TestHistoryIsOfTheAPIServer: with objects that are younger than the load balancer, the command itself deletes it.
func TestHistoryIsOfTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.made(w.cluster, "a")
	all, err := find(t.Context(), w.Client, w.provider.Inventory, w.cluster)
	w.must(err)
	maps := w.Client.CoreV1().ConfigMaps("default")
	eventually.True(t, "an object is younger than the load balancer", func() bool {
		m, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "younger-"}}, metav1.CreateOptions{})
		w.must(err)
		return m.CreationTimestamp.After(*all[0].Created)
	})
	if _, stderr, code := w.run("", "--delete", "--yes"); code != 0 || len(w.names()) != 0 {
		t.Errorf("exit code %d, left %q: %s", code, w.names(), stderr)
	}
}

// TestServiceThatComesMeanwhileKeepsItsLoadBalancer: between the list and the answer.
func TestServiceThatComesMeanwhileKeepsItsLoadBalancer(t *testing.T) {
	w := newWorld(t)
	w.made(w.cluster, "late")
	all, err := find(t.Context(), w.Client, w.provider.Inventory, w.cluster)
	w.must(err)
	w.service("late")
	w.sim.ResetRequests()
	r := &remover{client: w.Client, inventory: w.provider.Inventory, cluster: w.cluster, told: io.Discard, timeout: time.Minute}
	if stays := r.run(t.Context(), all); !stays || len(all) != 1 || all[0].Outcome != refused || w.sim.Mutations() != 0 {
		t.Errorf("stays %t: %+v; %d changing calls", stays, all[0], w.sim.Mutations())
	}
	// One that comes while the cloud is read is seen, too: the cloud is read first.
	in := &during{Inventory: w.provider.Inventory, then: func() { w.made(w.cluster, "later"); w.service("later") }}
	if all, err := find(t.Context(), w.Client, in, w.cluster); err != nil || len(all) != 0 {
		t.Errorf("orphans %+v, %v", all, err)
	}
}

// during does something while the cloud is read.
type during struct {
	cloud.Inventory
	then func()
}

func (d *during) Owned(ctx context.Context, c cloud.Cluster) ([]cloud.Owned, error) {
	d.then()
	return d.Inventory.Owned(ctx, c)
}

// TestHalfAnAnswerIsNone: neither the cloud's nor a failure of a deletion is taken for done.
func TestHalfAnAnswerIsNone(t *testing.T) {
	w := newWorld(t)
	w.made(w.cluster, "a")
	remove := w.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodGet, Path: "/lbaas/loadbalancers", Truncate: true})
	if out, stderr, code := w.run("", "--delete", "--yes", "--not-restored"); code != 2 || out != "" {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	remove()
	remove = w.sim.AddFault(ossim.Fault{Service: "load-balancer", Method: http.MethodDelete, Status: http.StatusForbidden})
	if out, stderr, code := w.run("", "--delete", "--yes", "--not-restored"); code != 1 || !strings.Contains(out, string(failed)) || len(w.names()) != 1 {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	remove()
	if _, stderr, code := w.run("", "--delete", "--yes", "--not-restored"); code != 0 || len(w.names()) != 0 {
		t.Errorf("exit code %d, left %q: %s", code, w.names(), stderr)
	}
}

// TestNothingIsOwnedWithoutLoadBalancers: the configuration decides.
func TestNothingIsOwnedWithoutLoadBalancers(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "cloud.conf")
	w.must(os.WriteFile(file, []byte(w.sim.CloudConf()+"\n[LoadBalancer]\nenabled=false\n"), 0o600))
	w.flags[len(w.flags)-1] = file
	if _, stderr, code := w.run(""); code != 2 || !strings.Contains(stderr, "is not known") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestUnreachableAPIServer: what is to be done is said, and nothing is deleted.
func TestUnreachableAPIServer(t *testing.T) {
	w := newWorld(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(controlplane.WriteKubeconfig(kubeconfig, &rest.Config{Host: "https://127.0.0.1:1"}))
	w.flags = append(w.flags, "--kubeconfig", kubeconfig)
	w.sim.ResetRequests()
	_, stderr, code := w.run("", "--delete", "--yes")
	if code != 2 || !strings.Contains(stderr, "\n→ look whether the API server at https://127.0.0.1:1 runs") || w.sim.Mutations() != 0 {
		t.Errorf("exit code %d, %d changing calls: %s", code, w.sim.Mutations(), stderr)
	}
}
