//go:build unix

package rollout

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A kubelet that cannot use its configuration ends within a second or two of its start, and systemd starts it
// again later: it is looked at so often, in this distance, before it counts as running.
const (
	looks     = 5
	lookEvery = 2 * time.Second
)

// unit is the kubelet's service of systemd.
type unit struct {
	name string
	// every is the distance of looks.
	every time.Duration
	// systemctl runs it, and returns what it says.
	systemctl func(ctx context.Context, args ...string) (string, error)
}

// newUnit returns a unit of the systemd in hostRoot, "" for the one that runs here.
func newUnit(name, hostRoot string) unit {
	return unit{name, lookEvery, func(ctx context.Context, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/usr/bin/systemctl", args...) //nolint:gosec // the unit is the administrator's
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		if hostRoot != "" {
			cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: hostRoot}
			cmd.Env = append(cmd.Env, "SYSTEMD_IGNORE_CHROOT=1") // systemctl does nothing in a chroot otherwise
		}
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}}
}

// restart restarts the unit.
func (u unit) restart(ctx context.Context) error {
	if out, err := u.systemctl(ctx, "restart", "--", u.name); err != nil {
		return fmt.Errorf("systemctl restart %s fails: %w: %s", u.name, err, out)
	}
	return nil
}

// staysUp fails if the unit does not go on running.
func (u unit) staysUp(ctx context.Context) error {
	for range looks {
		timer := time.NewTimer(u.every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		if out, err := u.systemctl(ctx, "is-active", "--", u.name); err != nil {
			return fmt.Errorf("%s does not stay up (systemctl is-active: %w: %s); see journalctl -u %s", u.name, err, out, u.name)
		}
	}
	return nil
}
