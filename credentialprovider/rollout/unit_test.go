package rollout

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/isthmus-cloud/isthmus/credentialprovider/install"
)

// fakeSystemd is a systemd whose kubelet runs with the configurations in good.
type fakeSystemd struct {
	config string
	good   []string
	told   []string
}

func (f *fakeSystemd) systemctl(_ context.Context, args ...string) (string, error) {
	if f.told = append(f.told, args[0]); args[0] == "restart" {
		return "", nil
	}
	data, err := os.ReadFile(f.config)
	for _, g := range f.good {
		if err == nil && g == string(data) {
			return "active", nil
		}
	}
	return "activating", errors.Join(err, errors.New("exit status 3"))
}

// A kubelet that does not run with a new configuration gets the old one back.
func TestRestartGoesBack(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "etc", ConfigFile)
	systemd := &fakeSystemd{config: config, good: []string{"one", "three"}}
	u := unit{"kubelet.service", time.Millisecond, systemd.systemctl}
	for _, step := range []struct {
		install, was, want, there string
		told                      string
	}{
		{"bad", "", "all is installed, but kubelet.service does not stay up (systemctl is-active: exit status 3: activating); see journalctl -u kubelet.service", "bad", "restart is-active"},
		{"one", "", "", "one", "restart is-active is-active is-active is-active is-active"},
		{"two", "one", "kubelet.service does not stay up (systemctl is-active: exit status 3: activating); see journalctl -u kubelet.service; the credential-provider.yaml from before is back", "one", "restart is-active restart"},
		{"three", "one", "", "three", "restart is-active is-active is-active is-active is-active"},
	} {
		plan := install.Plan{BinDir: filepath.Join(dir, "bin"), ConfigDir: filepath.Join(dir, "etc"), Items: []install.Item{
			{Dir: install.Config, Name: ConfigFile, Data: []byte(step.install), Mode: 0o600, Restart: true},
		}}
		if r, err := plan.Run(t.Context()); err != nil || !r.Restart {
			t.Fatalf("%s: %+v, %v", step.install, r, err)
		}
		var was []byte
		if step.was != "" {
			was = []byte(step.was)
		}
		systemd.told = nil
		var out bytes.Buffer
		err := restart(t.Context(), u, plan, was, &out)
		if got := words(err); got != step.want || (err == nil) != (out.String() == "kubelet.service restarted\n") {
			t.Errorf("%s: %q, %q, want %q", step.install, got, out.String(), step.want)
		}
		if data, err := os.ReadFile(config); err != nil || string(data) != step.there {
			t.Errorf("%s: then there is %q, %v", step.install, data, err)
		}
		if diff := cmp.Diff(step.told, strings.Join(systemd.told, " ")); diff != "" {
			t.Errorf("%s: systemctl (-want +got):\n%s", step.install, diff)
		}
		if step.install == "two" {
			if _, err := plan.Run(t.Context()); !errors.Is(err, install.ErrRejected) {
				t.Errorf("it is tried again: %v", err)
			}
		}
	}
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A run that is told to end while it looks at the kubelet leaves the restart to the next one.
func TestRestartStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	u := unit{"kubelet.service", time.Hour, func(context.Context, ...string) (string, error) { cancel(); return "", nil }}
	plan := install.Plan{BinDir: filepath.Join(t.TempDir(), "bin"), ConfigDir: filepath.Join(t.TempDir(), "etc"), Items: []install.Item{{Dir: install.Config, Name: ConfigFile, Data: []byte("x"), Mode: 0o600, Restart: true}}}
	if _, err := plan.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := restart(ctx, u, plan, nil, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "ended before it was seen to stay up") {
		t.Errorf("got %v", err)
	}
	if r, err := plan.Run(t.Context()); err != nil || !r.Restart {
		t.Errorf("the restart is forgotten: %+v, %v", r, err)
	}
}
