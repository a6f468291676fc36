package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/eventually"
)

// replica is a place where a process of the cloud controller manager runs, again and again.
type replica struct {
	t       testing.TB
	name    string
	secure  string // address of the secure port
	webhook string // address of the webhook port
	args    []string
	logFile string

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// newReplica returns the nth replica, from 0 on, on an address of its own. It is not started.
func (c *cluster) newReplica(n int, args ...string) *replica {
	c.t.Helper()
	ip := fmt.Sprintf("127.0.0.%d", 2+n)
	secure, webhook := controlplane.MustFreePort(c.t, ip), controlplane.MustFreePort(c.t, ip)
	r := &replica{
		t: c.t, name: "replica-" + strconv.Itoa(n), secure: net.JoinHostPort(ip, secure), webhook: net.JoinHostPort(ip, webhook),
		logFile: filepath.Join(c.t.TempDir(), "log"),
	}
	r.args = slices.Concat(shippedArgs(c.t), []string{
		"--cloud-config=" + c.cloudConf, "--kubeconfig=" + c.kubeconfig, "--cluster-cidr=10.244.0.0/16",
		"--bind-address=" + ip, "--secure-port=" + secure, "--webhook-bind-address=" + ip, "--webhook-secure-port=" + webhook,
		// Who loses its lease ends at once, which a busy machine must not bring about.
		"--leader-elect-lease-duration=300s", "--leader-elect-renew-deadline=240s",
		"--authorization-always-allow-paths=/readyz,/healthz,/livez,/metrics,/debug/pprof/*",
	}, args)
	c.t.Cleanup(func() {
		r.kill()
		if c.t.Failed() {
			r.showLog()
		}
	})
	return r
}

// shippedArgs are the arguments in the DaemonSet with the components of the cloud, and
// those that make it serve and register webhooks.
func shippedArgs(t testing.TB) []string {
	t.Helper()
	var set appsv1.DaemonSet
	shipped(t, "base/daemonset.yaml", &set)
	args := set.Spec.Template.Spec.Containers[0].Args
	for _, component := range []string{"openstack", "webhook-server", "webhook-auto"} {
		args = append(args, componentArgs(t, component)...)
	}
	for _, flag := range []string{"--webhooks", "--webhook-shutdown-delay", "--webhook-registration"} {
		if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, flag+"=") }) {
			t.Fatalf("the manifests set no %s: %q", flag, args)
		}
	}
	return args
}

// componentArgs are the arguments that a component adds.
func componentArgs(t testing.TB, component string) []string {
	t.Helper()
	var patch []struct {
		Path  string
		Value any
	}
	shipped(t, "components/"+component+"/workload-patch.yaml", &patch)
	var args []string
	for _, p := range patch {
		if arg, ok := p.Value.(string); ok && strings.HasSuffix(p.Path, "/args/-") {
			args = append(args, arg)
		}
	}
	if len(args) == 0 {
		t.Fatalf("component %s adds no arguments", component)
	}
	return args
}

// start starts the process; what it logs is appended to the replica's log.
func (r *replica) start() {
	r.t.Helper()
	log, err := os.OpenFile(r.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()                      // the process has its own
	r.cmd = exec.Command(theShared.binary, r.args...)       //nolint:gosec // our own binary, ended by kill
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test, which ends it
	r.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.Env = log, log, []string{"HOME=" + filepath.Dir(r.logFile)}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended, cmd := make(chan struct{}), r.cmd
	r.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // whoever ended it knows why; the log says the rest
	}()
}

// shutdownDelay is how long it still serves, as its arguments say, after it was told to end.
func (r *replica) shutdownDelay() time.Duration {
	for _, arg := range slices.Backward(r.args) { // the last one counts
		if text, ok := strings.CutPrefix(arg, "--webhook-shutdown-delay="); ok {
			d, err := time.ParseDuration(text)
			if err != nil {
				r.t.Fatal(err)
			}
			return d
		}
	}
	return 0
}

// probe is the readiness probe of the manifests.
func (r *replica) probe(ctx context.Context, client *http.Client) error {
	_, err := r.get(ctx, client, "/readyz")
	return err
}

func (r *replica) get(ctx context.Context, client *http.Client, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.secure+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), nil
}

// waitReady waits until the readiness probe succeeds.
func (r *replica) waitReady() {
	r.t.Helper()
	client := probeClient()
	defer client.CloseIdleConnections()
	eventually.Met(r.t, func() string {
		select {
		case <-r.ended:
			r.t.Fatalf("%s ended by itself", r.name)
		default:
		}
		if err := r.probe(r.t.Context(), client); err != nil {
			return fmt.Sprintf("%s is not ready: %v", r.name, err)
		}
		return ""
	})
}

// metricIn is the value of a metric in what /metrics answers, summed over all labels.
func metricIn(body, name string) float64 {
	sum := 0.0
	for line := range strings.SplitSeq(body, "\n") {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		if v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
			sum += v
		}
	}
	return sum
}

// end ends it as the kubelet does, and waits.
func (r *replica) end() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatalf("end %s: %v", r.name, err)
	}
	eventually.Received(r.t, r.name+" ends", r.ended)
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		r.t.Errorf("%s ended with exit code %d, want 0", r.name, code)
	}
}

// kill is SIGKILL, and the wait for it. A replica that does not run is left alone.
func (r *replica) kill() {
	if r.ended == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.ended
}

// showLog shows the end of its log.
func (r *replica) showLog() {
	file, err := os.Open(r.logFile)
	if err != nil {
		r.t.Logf("log of %s: %v", r.name, err)
		return
	}
	defer func() { _ = file.Close() }()
	var lines []string
	for s := bufio.NewScanner(file); s.Scan(); {
		lines = append(lines, s.Text())
	}
	r.t.Logf("log of %s, %d lines, the last:\n%s", r.name, len(lines), strings.Join(lines[max(0, len(lines)-30):], "\n"))
}
