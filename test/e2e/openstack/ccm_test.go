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
	dir := c.t.TempDir()
	port, webhookPort := freePort(c.t), freePort(c.t)
	m := &manager{
		t: c.t, conf: writeConf(c.t, conf), log: filepath.Join(dir, "ccm.log"), ended: make(chan struct{}),
		readinessAt: "https://127.0.0.1:" + port + "/readyz",
	}
	m.run(binary(c.t, "cloud-controller-manager"), append([]string{
		"--cloud-provider=openstack", "--cloud-config=" + m.conf, "--cluster-name=" + clusterName,
		"--kubeconfig=" + c.kubeconfig, "--authentication-kubeconfig=" + c.kubeconfig, "--authorization-kubeconfig=" + c.kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + filepath.Join(dir, "serving"),
		"--webhooks=*", "--webhook-bind-address=127.0.0.1", "--webhook-secure-port=" + webhookPort, "--webhook-cert-source=self-managed",
		"--node-monitor-period=1s", "--leader-elect-retry-period=500ms", "--leader-elect-renew-deadline=5s", "--leader-elect-lease-duration=10s",
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

// stop ends it, which must work within 20 s and with exit code 0.
func (m *manager) stop() {
	m.t.Helper()
	select {
	case <-m.ended:
	default:
		_ = m.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-m.ended:
		case <-time.After(20 * time.Second):
			_ = m.cmd.Process.Kill()
			<-m.ended
			m.t.Error("the cloud controller manager did not end within 20 s of SIGTERM")
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
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	deadline := time.Now().Add(time.Minute)
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

// budget asserts what an operation on a load balancer since begin may cost, logins and polls
// aside: most calls, of them changes that change the cloud. When the cloud was so slow that
// the operation was begun again, most holds for each time, for it looks again; what was
// changed is not changed again, so changes holds for all of them together.
func (m *manager) budget(what string, calls []call, most, changes int) {
	m.t.Helper()
	attempts, counted := 1+len(m.logged(notDone))-m.slow, withoutPolls(calls)
	changed := slices.DeleteFunc(slices.Clone(counted), func(c call) bool { return c.method == http.MethodGet })
	m.t.Logf("%s cost %d calls, %d of them changes, in %d attempts", what, len(counted), len(changed), attempts)
	if len(changed) > changes {
		m.t.Errorf("%s cost %d changing calls, want at the most %d:\n%s", what, len(changed), changes, list(changed))
	}
	if len(counted) == 0 || len(counted) > most*attempts {
		m.t.Errorf("%s cost %d calls in %d attempts, want at the most %d each:\n%s", what, len(counted), attempts, most, list(calls))
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
