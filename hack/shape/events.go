package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/hack/rig"
	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
)

// event is something that the manager reacts to.
type event struct {
	Name string `json:"event"`
	// Files are those that it passes. Not in Files are Helpers, those that nobody opens to follow it, and Idle, those that
	// run without it, too.
	Files   []string `json:"files"`
	Helpers []string `json:"helpers"`
	Idle    []string `json:"idle"`
	// Circular are those of Files that call each other, Leaves those that call none of Files.
	Circular []string `json:"circular"`
	Leaves   []string `json:"leaves"`
}

const (
	nodes = 3 // before one joins
	quiet = 5 * time.Second
	look  = 200 * time.Millisecond
)

// watched is a manager whose counters can be read.
type watched struct {
	*rig.Cluster
	dir     string
	out     io.Writer
	timeout time.Duration
	sim     *ossim.Sim
	process *rig.Process
	http    *http.Client
	wait    rig.Wait
	nodes   int
	taken   int
	longest time.Duration // of what was counted
}

// observe runs the manager and returns the files that events pass.
func observe(ctx context.Context, c *code, dir string, timeout time.Duration, out io.Writer) (events []event, err error) {
	fmt.Fprintln(out, "building the manager with counters …")
	w := &watched{dir: dir, out: out, timeout: timeout}
	if err := w.build(ctx, c); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.end()) }()
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	acts := []struct {
		name string
		do   func(context.Context) error
	}{
		{"A Node that joins", func(ctx context.Context) error { return w.join(ctx, 1) }},
		{"A Service that gets an address", w.publish},
		{"A Service that changes a port", w.change},
		{"A Service that goes", w.hide},
	}
	var passed []map[string]bool
	service := map[string]bool{}
	for i, act := range acts {
		files, err := w.count(ctx, act.name, act.do)
		if err != nil {
			return nil, err
		}
		if passed = append(passed, files); i > 0 {
			maps.Copy(service, files)
		}
	}
	idle, err := w.count(ctx, "nothing happens", w.nothing)
	if err != nil {
		return nil, err
	}
	for i, act := range acts {
		events = append(events, c.newEvent(act.name, passed[i], idle))
	}
	return append(events, c.newEvent("A Service in all its life", service, idle)), nil
}

func (c *code) newEvent(name string, files, idle map[string]bool) event {
	e := event{Name: name}
	for _, f := range slices.Sorted(maps.Keys(files)) {
		switch p := c.packages[module+path.Dir(f)]; {
		case idle[f]:
			e.Idle = append(e.Idle, f)
		case p != nil && p.helper():
			e.Helpers = append(e.Helpers, f)
		default:
			e.Files = append(e.Files, f)
		}
	}
	for _, f := range e.Files {
		if c.reaches(f, f, e.Files) {
			e.Circular = append(e.Circular, f)
		}
		if !slices.ContainsFunc(e.Files, func(to string) bool { return c.calls[[2]string{f, to}] }) {
			e.Leaves = append(e.Leaves, f)
		}
	}
	return e
}

// reaches reports whether calls lead from one of files to another one, or to itself, through files.
func (c *code) reaches(from, to string, files []string) bool {
	seen, next := map[string]bool{}, []string{from}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for _, f := range files {
			if c.calls[[2]string{at, f}] && !seen[f] {
				if f == to {
					return true
				}
				seen[f], next = true, append(next, f)
			}
		}
	}
	return false
}

//go:embed hook.go
var hook []byte

// host is the package that hook is compiled into, by an overlay: it has no counters itself, as where there are some the
// compiler does not find an overlay's files.
const host = "pkg/version"

// build builds the manager with counters, and with what lets them be read.
func (w *watched) build(ctx context.Context, c *code) error {
	added, overlay := w.file("hook.go"), w.file("overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(c.root, host, "zz_shape.go"): added}})
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(added, hook, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return err
	}
	var counted []string
	for path, p := range c.packages {
		if p.production() && p.rel() != host {
			counted = append(counted, path)
		}
	}
	slices.Sort(counted)
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-tags=shapehook", "-cover", "-covermode=atomic",
		"-coverpkg="+strings.Join(counted, ","), "-o", w.file("manager"), module+"cmd/cloud-controller-manager") //nolint:gosec // paths of this program
	cmd.Dir = c.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

func (w *watched) file(name string) string { return filepath.Join(w.dir, name) }

// start starts cloud, cluster and manager, with some Nodes initialized.
func (w *watched) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	if w.sim, err = ossim.Start(ossim.Options{Jobboard: true, OctaviaDelay: time.Second}); err != nil {
		return err
	}
	if err := os.WriteFile(w.file("cloud.conf"), []byte(w.sim.CloudConf()), 0o600); err != nil {
		return err
	}
	fmt.Fprintln(w.out, "a new cluster and cloud …")
	if w.Cluster, err = rig.StartCluster(ctx, rig.OurAccount, w.dir); err != nil {
		return err
	}
	// The environment is that of the manager only: it is the one process that this one starts from now on.
	if err := errors.Join(os.Setenv("ISTHMUS_SHAPE_SOCKET", w.file("socket")), os.Setenv("GOCOVERDIR", w.dir)); err != nil {
		return err
	}
	w.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.file("socket"))
	}}}
	w.process, err = rig.StartProcess(w.file("manager"), w.file("log"), nil, "--cloud-provider=openstack", "--cloud-config="+w.file("cloud.conf"),
		"--kubeconfig="+w.file("kubeconfig"), "--configure-cloud-routes=false", "--secure-port=0", "--node-status-update-frequency=24h")
	if err != nil {
		return err
	}
	w.wait = rig.Wait{Every: look, Process: w.process, Progress: rig.NewProgress(w.out, "start")}
	return w.join(ctx, nodes)
}

func (w *watched) end() error {
	if w.process != nil {
		w.process.Stop()
	}
	var err error
	if w.Cluster != nil {
		err = w.End()
	}
	if w.sim != nil {
		w.sim.Close()
	}
	return err
}

// join makes n machines and their Nodes, and waits until these are initialized.
func (w *watched) join(ctx context.Context, n int) error {
	var machines []rig.Machine
	for _, s := range w.sim.SeedServers(ossim.Seed{Count: n, NamePrefix: "node-" + strconv.Itoa(w.nodes) + "-"}) {
		machines = append(machines, rig.Machine{Name: s.Name, UUID: s.ID})
	}
	w.nodes += n
	if err := w.Register(ctx, machines); err != nil {
		return err
	}
	if err := w.wait.Until(ctx, func() (bool, string) {
		done := w.Initialized()
		return done == w.nodes, fmt.Sprintf("%d of %d Nodes", done, w.nodes)
	}); err != nil {
		return err
	}
	return w.settle(ctx)
}

// publish has a Service come.
func (w *watched) publish(ctx context.Context) error {
	if err := w.Publish(ctx, 0, 1); err != nil {
		return err
	}
	if err := w.wait.Until(ctx, func() (bool, string) { return w.Published() == 1, "no address yet" }); err != nil {
		return err
	}
	return w.settle(ctx)
}

// change gives it another port.
func (w *watched) change(ctx context.Context) error {
	const port = 8088
	for _, s := range w.Balanced() {
		s = s.DeepCopy()
		s.Spec.Ports[0].Port = port
		if _, err := w.Client.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update Service %s: %w", s.Name, err)
		}
	}
	if err := w.wait.Until(ctx, func() (bool, string) { return w.listens(port), "no such port yet" }); err != nil {
		return err
	}
	return w.settle(ctx)
}

// hide deletes it.
func (w *watched) hide(ctx context.Context) error {
	if err := w.Hide(ctx); err != nil {
		return err
	}
	if err := w.wait.Until(ctx, func() (bool, string) {
		return len(w.Balanced()) == 0 && len(w.sim.LoadBalancers()) == 0, "not gone yet"
	}); err != nil {
		return err
	}
	return w.settle(ctx)
}

func (w *watched) listens(port int) bool {
	for _, lb := range w.sim.LoadBalancers() {
		for _, l := range lb.Listeners {
			if l.Port == port {
				return true
			}
		}
	}
	return false
}

// nothing waits as long as the longest before.
func (w *watched) nothing(ctx context.Context) error {
	until := time.Now().Add(w.longest)
	return w.wait.Until(ctx, func() (bool, string) { return time.Now().After(until), "" })
}

func (w *watched) settle(ctx context.Context) error {
	_, err := w.wait.Settle(ctx, w.Cluster, quiet, func() (int, bool) {
		all := w.sim.Requests()
		busy := slices.ContainsFunc(all, func(r ossim.Request) bool { return r.Duration == 0 })
		for _, lb := range w.sim.LoadBalancers() {
			busy = busy || strings.HasPrefix(lb.Provisioning, "PENDING")
		}
		return len(all), busy
	})
	return err
}

// count returns the files of which a statement has run during act.
func (w *watched) count(ctx context.Context, what string, act func(context.Context) error) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	w.wait.Progress = rig.NewProgress(w.out, what)
	if err := w.ask(ctx, "/clear"); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := act(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	w.longest = max(w.longest, time.Since(begin))
	w.taken++
	dir := w.file(strconv.Itoa(w.taken))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := w.ask(ctx, "/write?dir="+url.QueryEscape(dir)); err != nil {
		return nil, err
	}
	files, err := covered(ctx, dir)
	fmt.Fprintf(w.out, "✓ %s: %.0f s, %d files\n", what, time.Since(begin).Seconds(), len(files))
	return files, err
}

func (w *watched) ask(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://manager"+path, nil)
	if err != nil {
		return err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return fmt.Errorf("counters of the manager: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("counters of the manager: %s: %s", resp.Status, text), err)
	}
	return nil
}

// covered are the files with a counter in dir.
func covered(ctx context.Context, dir string) (map[string]bool, error) {
	text := filepath.Join(dir, "text")
	if out, err := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text).CombinedOutput(); err != nil { //nolint:gosec // paths of this program
		return nil, fmt.Errorf("go tool covdata: %w: %s", err, out)
	}
	data, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for line := range strings.Lines(string(data)) { // module/file.go:1.2,3.4 statements count
		if file, rest, ok := strings.Cut(strings.TrimPrefix(line, module), ".go:"); ok && !strings.HasSuffix(strings.TrimSpace(rest), " 0") {
			files[file+".go"] = true
		}
	}
	return files, nil
}
