//go:build unix

package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/install"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// ConfigFile is the CredentialProviderConfig among the files that are installed.
const ConfigFile = "credential-provider.yaml"

// Options are what is installed, and where.
type Options struct {
	// BinDir and ConfigDir are where the program and its configuration go, and From has the configuration; "" for
	// the program alone.
	BinDir, ConfigDir, From string
	// Force replaces files, too, that are not ours, or that somebody has changed.
	Force bool
	// Every is the time after which it is done again, 0 for once.
	Every time.Duration
	// Unit is the unit of systemd that is restarted with a new configuration, "" for none, in the file system
	// HostRoot, "" for this one.
	Unit, HostRoot string
	// Parse reads arguments as the program does when the kubelet runs it.
	Parse func(args []string) (config.Source, error)
}

// unitName is the kubelet's unit, for words about it.
func (o Options) unitName() string { return cmp.Or(o.Unit, "kubelet.service") }

// Run installs once or, with Every, until ctx ends. It tells out what it does.
func (o Options) Run(ctx context.Context, out io.Writer) error {
	for first := true; ; first = false {
		changed, err := o.install(ctx, out)
		if err != nil {
			return err
		}
		if first && !changed {
			if err := tell(out, fmt.Sprintf("%s and its configuration are as they should be in %s and %s\n", credentialprovider.Program, o.BinDir, o.ConfigDir)); err != nil {
				return err
			}
		}
		if o.Every == 0 {
			return nil
		}
		timer := time.NewTimer(o.Every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil // it was told to end
		}
	}
}

// install brings the node up to date once.
func (o Options) install(ctx context.Context, out io.Writer) (changed bool, err error) {
	plan, err := o.plan()
	if err != nil {
		return false, err
	}
	config := filepath.Join(o.ConfigDir, ConfigFile)
	was, err := os.ReadFile(config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	result, err := plan.Run(ctx)
	for _, file := range result.Changed {
		if err := tell(out, file+" installed\n"); err != nil {
			return true, err
		}
	}
	replaced := slices.Contains(result.Changed, config)
	switch {
	case errors.Is(err, syscall.EROFS):
		return true, fmt.Errorf("%w; choose directories that can be written to on this system (--bin-dir, --config-dir)", err)
	case errors.Is(err, install.ErrRejected):
		return true, fmt.Errorf("%w (journalctl -u %s); correct it, or give --force to try it again", err, o.unitName())
	case err != nil:
		return true, err
	case result.Restart && o.Unit != "":
		if !replaced {
			was = nil // what was before it is not known any more
		}
		return true, restart(ctx, newUnit(o.Unit, o.HostRoot), plan, was, out)
	case replaced:
		return true, tell(out, "restart the kubelet: it reads "+config+" when it starts\n")
	}
	return len(result.Changed) > 0, nil
}

// restart restarts the kubelet with the plan's configuration. If it does not run with it, the one that was
// before, if any, is put back, with another restart, and the plan's is not tried again.
func restart(ctx context.Context, u unit, plan install.Plan, was []byte, out io.Writer) error {
	if err := u.restart(ctx); err != nil {
		return fmt.Errorf("all is installed, but %w; restart it by hand", err)
	}
	err := u.staysUp(ctx)
	switch {
	case err == nil:
		if err := plan.Restarted(); err != nil {
			return err
		}
		return tell(out, u.name+" restarted\n")
	case ctx.Err() != nil:
		return fmt.Errorf("all is installed and %s restarted, but this ended before it was seen to stay up", u.name)
	case was == nil:
		return fmt.Errorf("all is installed, but %w", err)
	}
	if undoErr := plan.Undo(ctx, install.Item{Dir: install.Config, Name: ConfigFile, Data: was, Mode: 0o600}); undoErr != nil {
		return errors.Join(err, undoErr)
	}
	if restartErr := u.restart(ctx); restartErr != nil {
		return fmt.Errorf("%w; the %s from before is back, but %w", err, ConfigFile, restartErr)
	}
	return errors.Join(fmt.Errorf("%w; the %s from before is back", err, ConfigFile), plan.Restarted())
}

// plan is what is to be on the node: the program, its other names, the files that the
// configuration names, and then the configuration.
func (o Options) plan() (install.Plan, error) {
	self, err := os.Executable()
	if err != nil {
		return install.Plan{}, fmt.Errorf("this program does not find itself: %w", err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return install.Plan{}, fmt.Errorf("this program cannot be read: %w", err)
	}
	plan := install.Plan{BinDir: o.BinDir, ConfigDir: o.ConfigDir, Force: o.Force, Items: []install.Item{
		{Dir: install.Bin, Name: credentialprovider.Program, Data: program, Mode: 0o755, Check: runsHere},
	}}
	if o.From == "" {
		return plan, nil
	}
	source, err := readSource(o.From, o.ConfigDir)
	if err != nil {
		return install.Plan{}, fmt.Errorf("--from %s: %w", o.From, err)
	}
	links, err := source.check(o)
	if err != nil {
		return install.Plan{}, fmt.Errorf("nothing was installed: %w", err)
	}
	for _, link := range links {
		plan.Items = append(plan.Items, install.Item{Dir: install.Bin, Name: link, Link: credentialprovider.Program})
	}
	for _, file := range source.files {
		plan.Items = append(plan.Items, install.Item{Dir: install.Config, Name: file.name, Data: file.data, Mode: 0o600, Restart: file.name == ConfigFile})
	}
	return plan, nil
}

// runsHere checks that a program runs where it is to be, and is this one.
func runsHere(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, "--version").Output()
	if want := credentialprovider.Program + " " + version.String() + "\n"; err == nil && string(out) != want {
		err = fmt.Errorf("it says %q", out)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("programs do not run in %s: %w; is it mounted noexec?", filepath.Dir(file), err)
	case err != nil:
		return fmt.Errorf("the program does not run there: %w", err)
	}
	return nil
}

func tell(out io.Writer, text string) error {
	_, err := io.WriteString(out, text)
	return err
}
