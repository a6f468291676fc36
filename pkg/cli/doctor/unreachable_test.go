package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// ofCluster are the checks that need the API server.
var ofCluster = []string{"manager", "permissions", "nodes", "taints", "services", "webhooks", "versions"}

// absent is an API server that does not serve, and how many requests it gets at most.
type absent struct {
	name, next string
	config     *rest.Config // nil where the kubeconfig is not there
	asked      *atomic.Int64
	want       int64
	// bound is options.bound.
	bound func(context.Context, string, time.Duration) (context.Context, context.CancelFunc)
}

// unbound bounds nothing: what a test here waits for comes.
func unbound(ctx context.Context, _ string, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func absents(t *testing.T) []absent {
	t.Helper()
	refused := absent{name: "refused", next: "nobody listens there", config: &rest.Config{Host: "https://127.0.0.1:1"}, asked: &atomic.Int64{}, bound: unbound}
	missing := absent{name: "no kubeconfig", next: "name another with --kubeconfig", asked: &atomic.Int64{}, bound: unbound}
	all := []absent{refused, missing}
	serve := func(a absent, answer http.HandlerFunc) {
		a.asked, a.want = &atomic.Int64{}, 1
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.asked.Add(1); answer(w, r) }))
		t.Cleanup(server.Close)
		a.config = &rest.Config{Host: server.URL}
		all = append(all, a)
	}
	serve(absent{name: "401", next: "log in again or renew them", bound: unbound}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"Unauthorized","code":401}`)
	})
	var first atomic.Bool
	hit := make(chan struct{}, 1)
	serve(absent{name: "hangs", next: "nobody has answered in time", bound: func(ctx context.Context, check string, _ time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		if check == checkOfCluster { // its time ends while the server is asked
			first.Store(true)
			go func() { <-hit; cancel(errors.New("not done after a test")) }()
		}
		return ctx, func() { cancel(nil) }
	}}, func(w http.ResponseWriter, r *http.Request) {
		if !first.Swap(false) { // whoever asks again need not be waited for
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		hit <- struct{}{}
		<-r.Context().Done()
	})
	return all
}

// unserved is a set without an API server.
func unserved(t *testing.T, p *place, a *absent) *set {
	t.Helper()
	s := &set{place: p, ControlPlane: &controlplane.ControlPlane{Config: a.config}, t: t, bound: a.bound}
	if a.config == nil {
		s.Config = &rest.Config{}
	}
	return s
}

// args name a kubeconfig that is not there, where the test wants it.
func (a *absent) args(t *testing.T) []string {
	if a.config != nil {
		return nil
	}
	return []string{"--kubeconfig", filepath.Join(t.TempDir(), "nowhere")}
}

// TestCloudIsLookedAtWithoutTheAPIServer: whatever keeps the API server from answering, the cloud is looked at, each check that needs the
// API server says that it was not made, and the server is asked once.
func TestCloudIsLookedAtWithoutTheAPIServer(t *testing.T) {
	all := absents(t)
	for name, start := range map[string]func(*testing.T) *place{"openstack": openStack, "aws": amazon, "vsphere": vCenter, "vsphere-paravirtual": superVisor} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			if _, err := p.MakeInstance(t.Context(), name+"-a"); err != nil { // a cloud without instances is worth a warning
				t.Fatal(err)
			}
			for _, a := range all {
				t.Run(a.name, func(t *testing.T) {
					s := unserved(t, p, &a)
					before := a.asked.Load()
					out, code := s.run(s.Conf, a.args(t)...)
					if code != 2 || !strings.Contains(out, a.next) || strings.Count(out, "→") != 2 {
						t.Errorf("exit code %d, and not %q:\n%s", code, a.next, out)
					}
					for check, want := range map[string]string{"cloud-config": "ok", "credentials": "ok", "cloud": "ok", "kubelet": "none"} {
						if got := state(out, check); got != want {
							t.Errorf("%s is %q, want %q:\n%s", check, got, want, out)
						}
					}
					for _, check := range append([]string{checkOfCluster}, ofCluster...) {
						if got := state(out, check); got != "unchecked" {
							t.Errorf("%s is %q:\n%s", check, got, out)
						}
					}
					if !strings.Contains(out, "UNCHECKED: "+strings.Join(ofCluster, ", ")+"\n  the API server cannot be asked\n  → mend what check cluster says first\n") {
						t.Errorf("the checks that were not made are not told of together:\n%s", out)
					}
					if got := a.asked.Load() - before; got != a.want {
						t.Errorf("the API server was asked %d times, want %d", got, a.want)
					}
				})
			}
		})
	}
}

// state is what the table says of a check.
func state(out, check string) string {
	for line := range strings.Lines(out) {
		if cells := strings.Fields(line); len(cells) > 1 && cells[0] == check {
			return cells[1]
		}
	}
	return ""
}

// TestFaultsOfTheCloudWithoutTheAPIServer: what is wrong with the cloud is an error, also then; credentials in a Secret cannot be looked at.
func TestFaultsOfTheCloudWithoutTheAPIServer(t *testing.T) {
	a := absents(t)[0]
	t.Run("denied", func(t *testing.T) {
		s := unserved(t, openStack(t), &a)
		out, code := s.run(s.deny(t, s.Conf))
		if code != 1 || state(out, "credentials") != "1" || state(out, "cloud") != "unchecked" || !strings.Contains(out, "→ mend what check credentials says first") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	t.Run("a Secret has the credentials", func(t *testing.T) {
		s := unserved(t, vCenter(t), &a)
		out, code := s.run(instead("global:\n", "global:\n  secretName: login\n  secretNamespace: kube-system\n")(s, s.Conf))
		if code != 2 || state(out, "credentials") != "unchecked" || state(out, "cloud") != "unchecked" || !strings.Contains(out, "read Secret kube-system/login") || !strings.Contains(out, "or call doctor with a cloud.conf that has the credentials itself") {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
	t.Run("a kubelet's configuration is wrong", func(t *testing.T) {
		s := unserved(t, openStack(t), &a)
		file := filepath.Join(t.TempDir(), "credential-provider.yaml")
		s.must(os.WriteFile(file, []byte("kind: none\n"), 0o600))
		if out, code := s.run(s.Conf, "--image-credential-provider-config", file); code != 1 || state(out, "kubelet") != "2" {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}

// TestWholeHasAnEnd: what is not done when the time for the whole ends is reported as that, with the flag.
func TestWholeHasAnEnd(t *testing.T) {
	a := absents(t)[0]
	s := unserved(t, openStack(t), &a)
	var end context.CancelCauseFunc
	var made []string
	s.bound = func(ctx context.Context, check string, _ time.Duration) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		switch made = append(made, check); check {
		case "":
			end = cancel
		case "cloud-config":
			end(errors.New("not done after a test (--timeout)"))
		}
		return ctx, func() { cancel(nil) }
	}
	out, code := s.run(s.Conf)
	if code != 2 || !slices.Equal(made, []string{"", "cluster", "cloud-config"}) || !strings.Contains(out, "not done after a test (--timeout)\n  → look why the API server or the cloud is slow, or give more time") {
		t.Errorf("exit code %d, made %q:\n%s", code, made, out)
	}
	for _, c := range checks() {
		if got := state(out, c.name); got != "unchecked" && c.name != "cloud-config" {
			t.Errorf("%s is %q:\n%s", c.name, got, out)
		}
	}
	for check, flag := range map[string]string{"": "--timeout", "cluster": "--check-timeout"} {
		ctx, cancel := bound(t.Context(), check, -1)
		cancel()
		if err := context.Cause(ctx); fmt.Sprint(err) != "not done after -1ns ("+flag+")" {
			t.Errorf("%q: %v", check, err)
		}
		began := time.Now()
		ctx, cancel = bound(t.Context(), check, time.Hour)
		cancel()
		if end, ok := ctx.Deadline(); !ok || end.Before(began) || end.After(began.Add(24*time.Hour)) {
			t.Errorf("%q: it ends at %s", check, end)
		}
	}
}

// TestChecksOfOneLackAreToldOfTogether: others are told of by themselves.
func TestChecksOfOneLackAreToldOfTogether(t *testing.T) {
	lack := output.Finding{Severity: output.Unchecked, Message: "none", Next: "mend it"}
	var all []output.Finding
	for _, check := range []string{"a", "b", "c"} {
		lack.Check = check
		all = append(all, lack)
	}
	all[1].Object = "kubelets"
	got := together(all)
	if len(got) != 2 || got[0].Check != "a, c" || got[1].Check != "b" {
		t.Errorf("%+v", got)
	}
	bad := output.Finding{Severity: output.Error, Check: "d", Message: "none", Next: "mend it"}
	if got := together([]output.Finding{bad, bad}); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}
