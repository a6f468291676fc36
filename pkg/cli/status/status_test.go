package status

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cloudproviderapi "k8s.io/cloud-provider/api"

	ccmstatus "github.com/isthmus-cloud/isthmus/pkg/ccm/status"
	"github.com/isthmus-cloud/isthmus/pkg/cloud/decorate/caller"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

var shared controlplane.Shared

func TestMain(m *testing.M) { shared.Main(m) }

const token = "secret-of-the-caller"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is a real API server and a user of it, who has a token.
type world struct {
	*controlplane.ControlPlane
	t     *testing.T
	dir   string
	flags []string
	o     *options
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{ControlPlane: shared.Plane(t), t: t, dir: t.TempDir()}
	config := rest.CopyConfig(w.Config) // the API server looks at its certificate first
	config.BearerToken = token
	kubeconfig := filepath.Join(w.dir, "kubeconfig")
	w.must(controlplane.WriteKubeconfig(kubeconfig, config))
	w.flags = []string{"--kubeconfig", kubeconfig}
	w.o = &options{now: func() time.Time { return noon }, redraws: func(io.Writer) bool { return false }}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) run(ctx context.Context, args ...string) (string, error) {
	o := *w.o
	cmd := command(&o)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append(args, w.flags...))
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// blanks are what a table puts between its columns.
var blanks = regexp.MustCompile(" {2,}")

// table is what is written, with one bar between two columns.
func table(out string) string { return blanks.ReplaceAllString(out, "|") }

func (w *world) report(args ...string) *report {
	w.t.Helper()
	out, err := w.run(w.t.Context(), append(args, "-o", "json")...)
	w.must(err)
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	return &r
}

// clean deletes something when the test ends.
func (w *world) clean(remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := remove(ctx, name, metav1.DeleteOptions{}); err != nil {
			w.t.Errorf("clean up: %v", err)
		}
	})
}

// node makes a Node, which waits for the cloud's data; route is the reason of the route controller's condition, empty for none.
func (w *world) node(name, route string) {
	w.t.Helper()
	nodes := w.Client.CoreV1().Nodes()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectNoSchedule}}
	if route != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.9.0.0/24", []string{"10.9.0.0/24"}
	}
	made, err := nodes.Create(w.t.Context(), n, metav1.CreateOptions{})
	w.must(err)
	w.clean(nodes.Delete, name)
	if route != "" {
		made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: route}}
		_, err = nodes.UpdateStatus(w.t.Context(), made, metav1.UpdateOptions{})
		w.must(err)
	}
}

// initialize takes all taints from a Node.
func (w *world) initialize(name string) {
	w.t.Helper()
	nodes := w.Client.CoreV1().Nodes()
	n, err := nodes.Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	n.Spec.Taints = nil
	_, err = nodes.Update(w.t.Context(), n, metav1.UpdateOptions{})
	w.must(err)
}

func (w *world) service(name string) {
	w.t.Helper()
	services := w.Client.CoreV1().Services("default")
	_, err := services.Create(w.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	w.must(err)
	w.clean(services.Delete, name)
}

func (w *world) lease(name, holder string, renewed time.Time) {
	w.t.Helper()
	leases := w.Client.CoordinationV1().Leases("kube-system")
	seconds := int32(15)
	_, err := leases.Create(w.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: renewed}, LeaseDurationSeconds: &seconds}}, metav1.CreateOptions{})
	w.must(err)
	w.clean(leases.Delete, name)
}

// serve runs a secure port, and returns the flags that lead to it; asked counts who has come with the token.
func (w *world) serve(h http.Handler) (flags []string, asked *atomic.Int32) {
	w.t.Helper()
	asked = &atomic.Int32{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+token {
			asked.Add(1)
		}
		h.ServeHTTP(rw, r)
	}))
	s.Config.ErrorLog = nil
	w.t.Cleanup(s.Close)
	ca := filepath.Join(w.t.TempDir(), "ca.crt")
	w.must(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return []string{"--leader-url", s.URL, "--leader-ca", ca}, asked
}

// replica is the page of one beside, or as, the leader cp-1_x.
func replica(leads bool) http.Handler { return replicaOf("cp-1_x", leads) }

// replicaOf is the page of one that has a throttled family, and an error.
func replicaOf(leader string, leads bool) http.Handler {
	now := func() time.Time { return noon }
	failed := ccmstatus.NewErrors(now)
	failed.Add("service/shop/web", "SyncLoadBalancerFailed", "no quota")
	return ccmstatus.Handler(ccmstatus.Source{
		Leader: func() (string, bool) { return leader, leads }, Now: now, Errors: failed,
		Traffic: func() []caller.Family {
			return []caller.Family{{Name: "octavia", Place: "r1", ShutUntil: noon.Add(time.Minute)}, {Name: "nova", Place: "r1", Limit: 2}, {Name: "neutron"}}
		},
	})
}

func TestAPIServerShowsWhatWaits(t *testing.T) {
	w := newWorld(t)
	w.node("status-new", "NoRouteCreated")
	w.node("status-done", "")
	w.initialize("status-done")
	w.service("status-web")
	w.lease("cloud-controller-manager", "cp-1_x", noon.Add(-2*time.Second))
	r := w.report()
	if r.Source != fromCluster || !strings.Contains(r.NotAsked, "no pod of the leader cp-1_x") || r.Leader != "cp-1_x, renewed 2s ago" || len(r.Unknown) != 6 {
		t.Errorf("report is %+v", r)
	}
	if s := r.Status; s.Nodes.Total != 2 || s.Nodes.Waiting != 1 || s.LoadBalancers.Waiting != 1 || s.Routes.Waiting != 1 || s.Leads || s.Leader != "cp-1_x" {
		t.Errorf("status is %+v", s)
	}
	out, err := w.run(t.Context())
	w.must(err)
	for _, want := range []string{"Nodes|2|1\n", "Throttled families|not known", "node|status-new|waits for the cloud's data\n",
		"service|default/status-web|waits for an address\n", "route of node|status-new|waits for its route\n", "Leader not asked|namespace kube-system has no pod of the leader cp-1_x"} {
		if !strings.Contains(table(out), want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}

func TestHolderOfTheLease(t *testing.T) {
	w := newWorld(t)
	w.lease("status-old", "gone_x", noon.Add(-time.Hour))
	w.lease("status-free", "", noon)
	for name, want := range map[string]string{
		"status-old":  "nobody: gone_x has renewed lease kube-system/status-old last 1h0m0s ago",
		"status-free": "nobody: lease kube-system/status-free has no holder",
		"status-none": "nobody: there is no lease kube-system/status-none",
	} {
		if r := w.report("--leader-elect-resource-name", name); !strings.HasPrefix(r.Leader, want) || r.Status.Leader != "" {
			t.Errorf("%s: %q, %q", name, r.Leader, r.Status.Leader)
		}
	}
}

func TestLeaderIsAsked(t *testing.T) {
	w := newWorld(t)
	flags, asked := w.serve(replica(true))
	r := w.report(flags...)
	if r.Source != fromLeader || r.NotAsked != "" || r.Leader != "cp-1_x" || len(r.Unknown) != 0 || r.Status.Traffic.Waiting != 2 || asked.Load() != 1 {
		t.Errorf("report is %+v, asked %d times with the token", r, asked.Load())
	}
	out, err := w.run(t.Context(), flags...)
	w.must(err)
	for _, want := range []string{"Throttled families|3|2\n", "family|octavia r1|throttled until 2026-01-02T12:01:00Z\n", "family|nova r1|at most 2 a second", "service/shop/web|SyncLoadBalancerFailed|1|no quota"} {
		if !strings.Contains(table(out), want) {
			t.Errorf("the table lacks %q:\n%s", want, out)
		}
	}
}

// The caller's credentials reach no server but the one that was named and verified.
func TestCredentialsGoToVerifiedServerOnly(t *testing.T) {
	w := newWorld(t)
	flags, asked := w.serve(replica(true))
	foreign := filepath.Join(w.dir, "foreign.crt")
	w.must(os.WriteFile(foreign, w.Config.CAData, 0o600))
	for what, args := range map[string][]string{
		"another CA":   {flags[0], flags[1], "--leader-ca", foreign},
		"another name": append([]string{"--leader-server-name", "other.invalid"}, flags...),
	} {
		if r := w.report(args...); r.Source != fromCluster || !strings.Contains(r.NotAsked, "x509: ") {
			t.Errorf("%s: %+v", what, r)
		}
	}
	away, _ := w.serve(http.RedirectHandler(flags[1]+"/status?format=json", http.StatusTemporaryRedirect))
	if r := w.report(away...); r.Source != fromCluster || !strings.Contains(r.NotAsked, "answers 307") {
		t.Errorf("redirected: %+v", r)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the token was sent %d times", n)
	}
}

func TestAnswersThatAreNoStatus(t *testing.T) {
	w := newWorld(t)
	say := func(code int, body string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, body)
		})
	}
	for want, h := range map[string]http.Handler{
		"does not lead: cp-1_x does":      replica(false),
		"get on the path /status":         say(http.StatusForbidden, "no"),
		"answers 500: a [31mb":            say(http.StatusInternalServerError, "a\x1b[31mb"+strings.Repeat("x", 1<<20)),
		"is no status":                    say(http.StatusOK, "{}"),
		"is no status: invalid character": say(http.StatusOK, "<html>"),
		"answers more than 8388608 bytes": say(http.StatusOK, strings.Repeat(" ", maxAnswer+1)),
	} {
		flags, _ := w.serve(h)
		if r := w.report(flags...); r.Source != fromCluster || !strings.Contains(r.NotAsked, want) || len(r.NotAsked) > 1000 {
			t.Errorf("%s: %.1000q", want, r.NotAsked)
		}
	}
}

func TestHostileTextsOfLeader(t *testing.T) {
	w := newWorld(t)
	const bad = `a\u001b[2Jb\u202e`
	var items []string
	for range 600 {
		items = append(items, fmt.Sprintf(`{"name":%q,"state":"%s","waits":true}`, "n", bad))
	}
	body := fmt.Sprintf(`{"time":"2026-01-02T12:00:00Z","version":"v","leader":"%[1]s","leads":true,"nodes":{"total":-1,"items":[%[2]s]},
		"queues":{"items":[{"name":"%[1]s","depth":1,"longestSeconds":1e300}]},"errors":{"items":[{"message":"%[1]s\n"}]}}`, bad, strings.Join(items, ","))
	flags, _ := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, body) }))
	for _, format := range []string{"table", "json"} {
		out, err := w.run(t.Context(), append(flags, "-o", format)...)
		w.must(err)
		if strings.ContainsAny(out, "\x1b\u202e") || !strings.Contains(out, "[2Jb") {
			t.Errorf("%s: %.2000q", format, out)
		}
	}
	if r := w.report(flags...); len(r.Status.Nodes.Items) != 500 || r.Status.Nodes.More != 100 {
		t.Errorf("%d Nodes are taken, %d more", len(r.Status.Nodes.Items), r.Status.Nodes.More)
	}
}

func TestWatchShowsProgressUntilItIsEnded(t *testing.T) {
	w := newWorld(t)
	w.node("status-a", "")
	w.node("status-b", "")
	ctx, end := context.WithCancel(t.Context())
	now, looks := noon, 0
	w.o.now = func() time.Time { return now }
	w.o.redraws = func(io.Writer) bool { return true }
	w.o.after = func(d time.Duration) <-chan time.Time {
		if looks++; looks == 1 {
			w.initialize("status-a")
		}
		now = now.Add(d)
		at := make(chan time.Time, 1)
		if looks == 3 {
			end()
		} else {
			at <- now
		}
		return at
	}
	out, err := w.run(ctx, "--watch", "--interval", "7s")
	screens := strings.Split(out, clear)
	if err != nil || looks != 3 || len(screens) != 4 || screens[0] != "" {
		t.Fatalf("%v after %d looks:\n%q", err, looks, out)
	}
	for i, want := range []string{"Nodes|2|2|2\n", "Nodes|2|1|2\n", "node|status-b|waits for the cloud's data|14s\n"} {
		if !strings.Contains(table(screens[i+1]), want) {
			t.Errorf("screen %d lacks %q:\n%s", i, want, screens[i+1])
		}
	}
	if strings.Contains(screens[3], "status-a") {
		t.Errorf("what is done still waits:\n%s", screens[3])
	}
}

// A watch for a program is one JSON document after another, also on a terminal.
func TestWatchInJSON(t *testing.T) {
	w := newWorld(t)
	ctx, end := context.WithCancel(t.Context())
	looks := 0
	w.o.redraws = func(io.Writer) bool { return true }
	w.o.after = func(time.Duration) <-chan time.Time {
		if looks++; looks == 3 {
			end()
			return nil
		}
		at := make(chan time.Time, 1)
		at <- noon
		return at
	}
	out, err := w.run(ctx, "--watch", "-o", "json")
	w.must(err)
	documents := 0
	for d := json.NewDecoder(strings.NewReader(out)); ; documents++ {
		var r struct{ Time time.Time }
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil || r.Time.IsZero() {
			t.Fatalf("%v, of %s:\n%q", err, r.Time, out)
		}
	}
	if documents != 3 {
		t.Errorf("%d documents, want 3:\n%s", documents, out)
	}
}

// fields adds the names of a type's fields in JSON, and of all types in it.
func fields(of reflect.Type, to map[string]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return
	}
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		to[name] = true
		fields(of.Field(i).Type, to)
	}
}

// What programs read is what the guide says: a field that is renamed, or new, is noticed.
func TestGuideHasTheFields(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guides/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(guide), "## For programs\n")
	part, _, _ = strings.Cut(part, "\n## ")
	want, told := map[string]bool{}, map[string]bool{}
	fields(reflect.TypeFor[report](), want)
	for _, m := range regexp.MustCompile("`([a-zA-Z]+)`").FindAllStringSubmatch(part, -1) {
		told[m[1]] = true
	}
	delete(told, "cluster") // a value
	if len(want) < 30 || !maps.Equal(told, want) {
		t.Errorf("the guide tells of %q, and there are %q", slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(want)))
	}
}

// A watch goes on while the API server does not answer, and says so.
func TestWatchOutlivesAnOutage(t *testing.T) {
	w := newWorld(t)
	ctx, end := context.WithCancel(t.Context())
	var down atomic.Bool
	flags, _ := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(rw, "down", http.StatusServiceUnavailable)
			return
		}
		replica(true).ServeHTTP(rw, r)
	}))
	bad := rest.CopyConfig(w.Config)
	bad.Host = "https://127.0.0.1:1" // what the leader knows needs no API server
	kubeconfig := filepath.Join(w.dir, "down")
	w.must(controlplane.WriteKubeconfig(kubeconfig, bad))
	w.flags = append(flags, "--kubeconfig", kubeconfig)
	looks := 0
	w.o.after = func(time.Duration) <-chan time.Time {
		looks++
		down.Store(looks == 1)
		at := make(chan time.Time, 1)
		if at <- noon; looks == 3 {
			end()
		}
		return at
	}
	out, err := w.run(ctx, "--watch")
	screens := strings.Split(out, "\n\nTime")
	if err != nil || len(screens) != 3 || !strings.Contains(screens[1], "Not known") || !strings.Contains(screens[2], "the leader") {
		t.Fatalf("%v:\n%s", err, out)
	}
	down.Store(true)
	if _, err := w.run(t.Context(), "--watch"); err == nil {
		t.Error("a watch begins with nothing known")
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	w := newWorld(t)
	empty := filepath.Join(w.dir, "empty")
	w.must(os.WriteFile(empty, nil, 0o600))
	for want, args := range map[string][]string{
		"--output":                        {"-o", "yaml"},
		"--interval 10ms":                 {"--interval", "10ms"},
		"--request-timeout":               {"--request-timeout", "0s"},
		"must be https://HOST:PORT":       {"--leader-url", "http://127.0.0.1:1", "--leader-ca", empty},
		"needs --leader-ca":               {"--leader-url", "https://127.0.0.1:1"},
		"of use with --leader-url only":   {"--leader-ca", empty},
		"there is no certificate in PEM":  {"--leader-url", "https://127.0.0.1:1", "--leader-ca", empty},
		"--leader-ca: open /nowhere":      {"--leader-url", "https://127.0.0.1:1", "--leader-ca", "/nowhere"},
		"must not be empty":               {"--leader-elect-resource-name", ""},
		"unknown command \"x\" for \"sta": {"x"},
	} {
		if out, err := w.run(t.Context(), args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}
