//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// operator is who asks with the command line isthmus.
type operator struct {
	c          *cluster
	kubeconfig string
	// cred is what cloud.conf logs in with.
	cred appCred
	// heard is what was asked and answered, as on a terminal.
	heard strings.Builder
}

func (c *cluster) operator() *operator {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, c.plane.Config); err != nil {
		c.t.Fatal(err)
	}
	return &operator{c: c, kubeconfig: file, cred: c.cloud.cred}
}

// asks runs isthmus, with a cloud.conf that has more, and returns what it prints and its exit code.
func (o *operator) asks(ctx context.Context, more string, args ...string) (string, int, error) {
	conf := writeConf(o.c.t, confFor(o.c.throughProxy(o.cred), o.c.cloud.region, more))
	cmd := exec.CommandContext(ctx, binary(o.c.t, "isthmus"),
		append(args, "--kubeconfig="+o.kubeconfig, "--cloud-provider=openstack", "--cloud-config="+conf)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Dir(o.kubeconfig)}
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) {
		err = nil
	}
	return string(out), cmd.ProcessState.ExitCode(), err
}

// hears waits until an answer has the exit code and the texts, as the cluster may be about to come there.
func (o *operator) hears(code int, texts []string, more string, args ...string) (answer string) {
	o.c.t.Helper()
	o.c.eventually("isthmus "+strings.Join(args, " "), func(ctx context.Context) error {
		said, got, err := o.asks(ctx, more, args...)
		if err != nil {
			return err
		}
		answer = said
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return fmt.Errorf("no %q in (exit code %d)\n%s", text, got, said)
			}
		}
		if got != code {
			return fmt.Errorf("exit code %d, want %d:\n%s", got, code, said)
		}
		return nil
	})
	fmt.Fprintf(&o.heard, "$ isthmus %s\n%s# exit code %d\n\n", strings.Join(args, " "), answer, code)
	return answer
}

// does says what is done between two questions.
func (o *operator) does(what string) { fmt.Fprintf(&o.heard, "# %s\n\n", what) }

// transcript is the page with what was heard.
const transcript = `# What isthmus says of a real OpenStack

Written by ~E2E_TRANSCRIPT=FILE make e2e-openstack TESTARGS='-run TestCLI$'~ on OpenStack Zed (Debian 12's packages) with a real
kube-apiserver and the controller manager, first of a cluster on which nothing is wrong, then of the same one broken. Each command
has ~--kubeconfig~, ~--cloud-provider=openstack~ and ~--cloud-config~, too. No webhooks are registered there, and no kubelet runs. Then the
test started a controller manager again: it deleted and made what the last plan names, in that order, and nothing else.

~~~text
%s
~~~
`

// write puts the page where somebody has asked for it.
func (o *operator) write(t *testing.T) {
	t.Helper()
	file := os.Getenv("E2E_TRANSCRIPT")
	if file == "" {
		return
	}
	page := fmt.Sprintf(strings.ReplaceAll(transcript, "~", "`"), strings.TrimSpace(o.heard.String()))
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil { //nolint:gosec // a document for everyone
		t.Fatal(err)
	}
}

// planned are the calls of a plan's steps, which are all in the cloud.
func planned(t *testing.T, answer string) (calls []string) {
	t.Helper()
	var said struct {
		Plan struct {
			Steps []struct{ Service, Call string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	for _, s := range said.Plan.Steps {
		if s.Service == "kubernetes" {
			t.Errorf("a step in the cluster: %s", s.Call)
			continue
		}
		calls = append(calls, s.Service+" "+s.Call)
	}
	return calls
}

var anID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// TestCLI: isthmus finds nothing on a healthy cluster and what is wrong on a broken one, changes nothing, and a controller
// manager then does what explain has said, in that order. docs/reference/transcript-openstack.md shows such a run.
func TestCLI(t *testing.T) {
	c := newCluster(t)
	nodes := c.nodes(2)
	m := c.startManager("")
	c.initialized(nodes)
	c.service("web", nil, tcp(80))
	c.address("web")
	lb, o := c.lb("web"), c.operator()
	if err := c.cloud.active(t.Context(), lb.ID); err != nil {
		t.Fatal(err)
	}
	inSync := []string{"nothing to do", lb.ID, "2 of 2 are members"}
	o.hears(0, inSync, "", "explain", "service", "web", "--cluster-name="+clusterName) // the manager may do something after it has shown the address
	mark := c.proxy.mark()
	o.heard.Reset()
	o.does("A cluster on which nothing is wrong.")
	o.hears(0, []string{"cloud         ok", "manager       ok", "nodes         ok", "services      ok"}, "", "doctor")
	o.hears(0, inSync, "", "explain", "service", "web", "--cluster-name="+clusterName)
	o.hears(0, []string{"nothing to do", nodes[0].id}, "", "explain", "node", nodes[0].name)
	o.hears(0, []string{"nothing in the cloud"}, "", "orphans", "--cluster-name="+clusterName)
	m.stop()

	const noSubnet = "00000000-0000-4000-8000-000000000001"
	web := c.update("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
	c.register(server{name: "stranger"}, "10.244.9.0/24")
	c.setReady("stranger", corev1.ConditionUnknown)
	expires := time.Now().Add(5 * 24 * time.Hour)
	ends, err := c.cloud.newCredential(t.Context(), "ends", &expires)
	if err != nil {
		t.Fatal(err)
	}
	o.cred = ends
	o.does("The controller manager was stopped, cloud.conf has an application credential of five days and names a subnet that there is not,\n# a Service was changed, and a Node has no server.")
	o.hears(1, []string{"cloud         2 found", "WARNING: cloud, application credential " + ends.ID, expires.UTC().Format(time.RFC3339), "ERROR: cloud, subnet " + noSubnet, "nobody leads", "ERROR: nodes, node/stranger"},
		"[LoadBalancer]\nsubnet-id = "+noSubnet, "doctor")
	o.hears(1, []string{"no server is named stranger", "kubernetes DELETE /api/v1/nodes/stranger"}, "", "explain", "node", "stranger")
	o.hears(0, []string{"Plan\n  1. "}, "", "explain", "service", "web", "--cluster-name="+clusterName)
	o.write(t)
	plan := planned(t, o.hears(0, []string{`"steps"`}, "", "explain", "service", "web", "--cluster-name="+clusterName, "-o", "json"))
	if changed := mutations(c.proxy.since(mark)); len(changed) > 0 {
		t.Errorf("reading changed the cloud:\n%s", list(changed))
	}

	mark = c.proxy.mark()
	c.startManager("")
	c.served("the Service's port was changed", lb.ID, "TCP/8080 → TCP "+membersAt(nodes, web.Spec.Ports[0].NodePort, 0))
	done := accepted(mutations(c.proxy.since(mark)))
	if len(plan) == 0 || len(done) != len(plan) {
		t.Fatalf("the plan was\n  %s\ndone was\n%s", strings.Join(plan, "\n  "), list(done))
	}
	for i, call := range done {
		// What a call makes has another ID than in the plan, where a later one names it.
		got, want := call.service+" "+call.method+" "+call.path, plan[i]
		if call.method == http.MethodPut {
			got, want = anID.ReplaceAllString(got, "…"), anID.ReplaceAllString(want, "…")
		}
		if got != want {
			t.Errorf("call %d was %s, in the plan it is %s", i+1, got, want)
		}
	}
	c.eventually("the Node without a server is gone", func(ctx context.Context) error {
		_, err := c.node(ctx, "stranger")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
	c.remove("web")
	c.nothingLeft()
}
