//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// manager is a running cloud-controller-manager.
type manager struct {
	t           *testing.T
	conf        string // its cloud.conf
	log         string // file
	cmd         *exec.Cmd
	ended       chan struct{}
	err         error
	readinessAt string
	slow        int // attempts at operations before begin that were not the last
}

// startManager runs the binary as the DaemonSet does: as its ServiceAccount, with the
// webhooks, and with an application credential. conf is added to its cloud.conf, args to its
// flags. All of its calls to the cloud pass the proxy.
func (c *cluster) startManager(conf string, args ...string) *manager {
	c.t.Helper()
	return c.startManagerWith(confFor(c.throughProxy(c.cloud.cred), c.cloud.region, conf), args...)
}

// throughProxy is a credential that is used at the proxy.
func (c *cluster) throughProxy(cred appCred) appCred {
	cred.AuthURL = c.proxy.authURL
	return cred
}

// startManagerWith is startManager with a whole cloud.conf.
func (c *cluster) startManagerWith(conf string, args ...string) *manager {
	c.t.Helper()
	return c.startDefault(conf, append([]string{
		"--webhooks=*", "--webhook-bind-address=127.0.0.1", "--webhook-secure-port=" + freePort(c.t), "--webhook-cert-source=self-managed",
		"--node-monitor-period=1s", "--leader-elect-retry-period=500ms",
	}, args...)...)
}

// startDefault runs the binary with no flags but those that say where it is, and args.
func (c *cluster) startDefault(conf string, args ...string) *manager {
	c.t.Helper()
	dir := c.t.TempDir()
	port := freePort(c.t)
	m := &manager{
		t: c.t, conf: writeConf(c.t, conf), log: filepath.Join(dir, "ccm.log"), ended: make(chan struct{}),
		readinessAt: "https://127.0.0.1:" + port + "/readyz",
	}
	m.run(binary(c.t, "cloud-controller-manager"), append([]string{
		"--cloud-provider=openstack", "--cloud-config=" + m.conf, "--cluster-name=" + clusterName,
		"--kubeconfig=" + c.kubeconfig, "--authentication-kubeconfig=" + c.kubeconfig, "--authorization-kubeconfig=" + c.kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + filepath.Join(dir, "serving"),
		"--v=2",
	}, args...))
	c.t.Cleanup(func() {
		m.stop()
		if c.t.Failed() {
			m.explain()
			c.explain()
		}
	})
	m.awaitReady()
	return m
}

func (m *manager) run(file string, args []string) {
	m.t.Helper()
	log, err := os.Create(m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	m.cmd = exec.Command(file, args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	// Only what a container has: nothing of the caller's OS_ variables.
	m.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + m.t.TempDir()}
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		defer close(m.ended)
		m.err = m.cmd.Wait()
		_ = log.Close()
	}()
}

// stop ends it, which must work with exit code 0.
func (m *manager) stop() {
	m.t.Helper()
	select {
	case <-m.ended:
	default:
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-m.ended:
		case <-time.After(patience):
			_ = m.cmd.Process.Kill()
			<-m.ended
			m.t.Errorf("the cloud controller manager did not end within %s of SIGTERM", patience)
			return
		}
	}
	if m.err != nil {
		m.t.Errorf("the cloud controller manager ended with: %v", m.err)
		m.err = nil
	}
}

func (m *manager) awaitReady() {
	m.t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	deadline := time.Now().Add(patience)
	for {
		resp, err := client.Get(m.readinessAt)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
			err = fmt.Errorf("%s", resp.Status)
		}
		select {
		case <-m.ended:
			m.t.Fatalf("the cloud controller manager ended: %v", m.err)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("the cloud controller manager is not ready: %v", err)
		}
	}
}

// logged returns the lines of its log that contain text.
func (m *manager) logged(text string) []string {
	m.t.Helper()
	data, err := os.ReadFile(m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, text) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

const notDone = "The cloud is not done yet"

// begin is where the calls of the operation that budget will look at begin.
func (m *manager) begin(p *proxy) (mark int) {
	m.t.Helper()
	m.slow = len(m.logged(notDone))
	return p.mark()
}

// budget asserts what an operation on a load balancer since begin cost, logins and polls
// aside. The changes are those that the cloud accepted, in their order, each beginning with
// the text of want ("DELETE /v2.0/floatingips"): they are the same however slow the cloud is.
// How often it was asked depends on that: one attempt from the beginning to the end may ask
// reads times, and each attempt that follows because the cloud was not done looks again at
// what may have changed meanwhile, which is again more. A change that the cloud refused
// because it was busy counts as a question.
func (m *manager) budget(what string, calls []call, reads, again int, want ...string) {
	m.t.Helper()
	attempts, counted := 1+len(m.logged(notDone))-m.slow, withoutPolls(calls)
	changed := accepted(mutations(counted))
	asked := len(counted) - len(changed)
	m.t.Logf("%s cost %d reads in %d attempts and %d changes", what, asked, attempts, len(changed))
	if !slices.EqualFunc(changed, want, func(c call, want string) bool { return strings.HasPrefix(c.method+" "+c.path, want) }) {
		m.t.Errorf("%s made the changes\n%s\nwant\n  %s", what, list(changed), strings.Join(want, "\n  "))
	}
	if limit := reads + again*(attempts-1); asked > limit {
		m.t.Errorf("%s cost %d reads in %d attempts, want at the most %d:\n%s", what, asked, attempts, limit, list(calls))
	}
}

// says is a check that its log contains text.
func (m *manager) says(text string) func(context.Context) error {
	return func(context.Context) error {
		if len(m.logged(text)) == 0 {
			return fmt.Errorf("the log does not say %q", text)
		}
		return nil
	}
}

// explain shows the end of its log.
func (m *manager) explain() {
	data, err := os.ReadFile(m.log)
	if err != nil {
		m.t.Log(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	const tail = 40
	m.t.Logf("the end of the cloud controller manager's log:\n%s", strings.Join(lines[max(0, len(lines)-tail):], "\n"))
}
