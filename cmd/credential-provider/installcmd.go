//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider/install"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

// installedConfig is the CredentialProviderConfig among the files that are installed.
const installedConfig = "credential-provider.yaml"

const installHelp = `isthmus-credential-provider install puts this program and its configuration on the node, or this
version in place of the last. It may be run again at any time: it writes only what differs.

  --bin-dir DIR        the kubelet's --image-credential-provider-bin-dir
  --config-dir DIR     where the configuration goes: point the kubelet's
                       --image-credential-provider-config to DIR/credential-provider.yaml
  --from DIR           the configuration: all files of this directory, such as a mounted Secret,
                       with the CredentialProviderConfig in credential-provider.yaml. The others are
                       those that its args name, in --config-dir. Default: the program alone
  --force              replace files, too, that were not installed by this command, or that somebody
                       has changed since
  --every TIME         do it again and again, and follow changes of --from, until told to end
  --restart-unit UNIT  restart this unit of systemd when credential-provider.yaml has changed, which
                       the kubelet reads at its start alone; if the unit does not stay up, the file
                       that was there before is put back; default: nothing is restarted
  --host-root DIR      the root of the node's file system, to reach its systemd out of a container
  --help               print this text

Everything is checked before anything is replaced, and each file is replaced at once. All files of
--from are readable for root alone. Links are made for entries that are named
isthmus-credential-provider-SOMETHING.
`

// installOptions are the flags of the command install.
type installOptions struct {
	binDir, configDir, from string
	force                   bool
	every                   time.Duration
	unit, hostRoot          string
}

// runInstall is the command install.
func runInstall(ctx context.Context, args []string, s streams) int {
	var o installOptions
	flags := flag.NewFlagSet("install", flag.ContinueOnError)
	flags.StringVar(&o.binDir, "bin-dir", "", "")
	flags.StringVar(&o.configDir, "config-dir", "", "")
	flags.StringVar(&o.from, "from", "", "")
	flags.BoolVar(&o.force, "force", false, "")
	flags.DurationVar(&o.every, "every", 0, "")
	flags.StringVar(&o.unit, "restart-unit", "", "")
	flags.StringVar(&o.hostRoot, "host-root", "", "")
	if code, ok := parseCommand(flags, args, installHelp, s); !ok {
		return code
	}
	if err := o.check(); err != nil {
		complain(s.err, err)
		return exitUsage
	}
	if err := o.keep(ctx, s); err != nil {
		complain(s.err, err)
		return exitFailed
	}
	return exitOK
}

// check finds flags that do not go together.
func (o installOptions) check() error {
	switch {
	case !filepath.IsAbs(o.binDir):
		return fmt.Errorf("--bin-dir %q has to be an absolute path: the kubelet's --image-credential-provider-bin-dir", o.binDir)
	case !filepath.IsAbs(o.configDir):
		return fmt.Errorf("--config-dir %q has to be an absolute path: where the configuration goes", o.configDir)
	case o.every < 0:
		return errors.New("--every has to be longer than 0")
	case o.hostRoot != "" && o.unit == "":
		return errors.New("--host-root is for --restart-unit")
	case strings.HasPrefix(o.unit, "-") || strings.ContainsAny(o.unit, "/ "):
		return fmt.Errorf("--restart-unit %q is no name of a unit", o.unit)
	case o.unit != "" && o.from == "":
		return errors.New("--restart-unit is for --from: a new version of the program takes no restart of the kubelet")
	}
	return nil
}

// unitName is the kubelet's unit, for words about it.
func (o installOptions) unitName() string { return cmp.Or(o.unit, "kubelet.service") }

// keep installs once or, with --every, until ctx ends.
func (o installOptions) keep(ctx context.Context, s streams) error {
	for first := true; ; first = false {
		changed, err := o.install(ctx, s)
		if err != nil {
			return err
		}
		if first && !changed {
			if err := write(s.out, fmt.Sprintf("%s and its configuration are as they should be in %s and %s\n", name, o.binDir, o.configDir)); err != nil {
				return err
			}
		}
		if o.every == 0 {
			return nil
		}
		timer := time.NewTimer(o.every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil // it was told to end
		}
	}
}

// install brings the node up to date once.
func (o installOptions) install(ctx context.Context, s streams) (changed bool, err error) {
	plan, err := o.plan()
	if err != nil {
		return false, err
	}
	config := filepath.Join(o.configDir, installedConfig)
	was, err := os.ReadFile(config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	result, err := plan.Run(ctx)
	for _, file := range result.Changed {
		if err := write(s.out, file+" installed\n"); err != nil {
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
	case result.Restart && o.unit != "":
		if !replaced {
			was = nil // what was before it is not known any more
		}
		return true, restart(ctx, newUnit(o.unit, o.hostRoot), plan, was, s)
	case replaced:
		return true, write(s.out, "restart the kubelet: it reads "+config+" when it starts\n")
	}
	return len(result.Changed) > 0, nil
}

// restart restarts the kubelet with the plan's configuration. If it does not run with it, the one that was
// before, if any, is put back, with another restart, and the plan's is not tried again.
func restart(ctx context.Context, u unit, plan install.Plan, was []byte, s streams) error {
	if err := u.restart(ctx); err != nil {
		return fmt.Errorf("all is installed, but %w; restart it by hand", err)
	}
	err := u.staysUp(ctx)
	switch {
	case err == nil:
		if err := plan.Restarted(); err != nil {
			return err
		}
		return write(s.out, u.name+" restarted\n")
	case ctx.Err() != nil:
		return fmt.Errorf("all is installed and %s restarted, but this ended before it was seen to stay up", u.name)
	case was == nil:
		return fmt.Errorf("all is installed, but %w", err)
	}
	if undoErr := plan.Undo(ctx, install.Item{Dir: install.Config, Name: installedConfig, Data: was, Mode: 0o600}); undoErr != nil {
		return errors.Join(err, undoErr)
	}
	if restartErr := u.restart(ctx); restartErr != nil {
		return fmt.Errorf("%w; the %s from before is back, but %w", err, installedConfig, restartErr)
	}
	return errors.Join(fmt.Errorf("%w; the %s from before is back", err, installedConfig), plan.Restarted())
}

// plan is what is to be on the node: the program, its other names, the files that the
// configuration names, and then the configuration.
func (o installOptions) plan() (install.Plan, error) {
	self, err := os.Executable()
	if err != nil {
		return install.Plan{}, fmt.Errorf("this program does not find itself: %w", err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return install.Plan{}, fmt.Errorf("this program cannot be read: %w", err)
	}
	plan := install.Plan{BinDir: o.binDir, ConfigDir: o.configDir, Force: o.force, Items: []install.Item{
		{Dir: install.Bin, Name: name, Data: program, Mode: 0o755, Check: runsHere},
	}}
	if o.from == "" {
		return plan, nil
	}
	source, err := readSource(o.from, o.configDir)
	if err != nil {
		return install.Plan{}, fmt.Errorf("--from %s: %w", o.from, err)
	}
	links, err := source.check(o.binDir)
	if err != nil {
		return install.Plan{}, fmt.Errorf("nothing was installed: %w", err)
	}
	for _, link := range links {
		plan.Items = append(plan.Items, install.Item{Dir: install.Bin, Name: link, Link: name})
	}
	for _, file := range source.files {
		plan.Items = append(plan.Items, install.Item{Dir: install.Config, Name: file.name, Data: file.data, Mode: 0o600, Restart: file.name == installedConfig})
	}
	return plan, nil
}

// runsHere checks that a program runs where it is to be, and is this one.
func runsHere(ctx context.Context, file string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, "--version").Output()
	if want := name + " " + version.String() + "\n"; err == nil && string(out) != want {
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
