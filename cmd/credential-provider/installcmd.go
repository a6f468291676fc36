//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/isthmus-cloud/isthmus/credentialprovider/rollout"
)

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

// parseInstall is the command install.
func parseInstall(args []string, s streams) (work, int) {
	o := rollout.Options{Parse: sourceOf}
	flags := flag.NewFlagSet("install", flag.ContinueOnError)
	flags.StringVar(&o.BinDir, "bin-dir", "", "")
	flags.StringVar(&o.ConfigDir, "config-dir", "", "")
	flags.StringVar(&o.From, "from", "", "")
	flags.BoolVar(&o.Force, "force", false, "")
	flags.DurationVar(&o.Every, "every", 0, "")
	flags.StringVar(&o.Unit, "restart-unit", "", "")
	flags.StringVar(&o.HostRoot, "host-root", "", "")
	if code, ok := parseCommand(flags, args, installHelp, s); !ok {
		return nil, code
	}
	if err := checkInstall(o); err != nil {
		complain(s.err, err)
		return nil, exitUsage
	}
	return func(ctx context.Context) int {
		if err := o.Run(ctx, s.out); err != nil {
			complain(s.err, err)
			return exitFailed
		}
		return exitOK
	}, exitOK
}

// checkInstall finds flags that do not go together.
func checkInstall(o rollout.Options) error {
	switch {
	case !filepath.IsAbs(o.BinDir):
		return fmt.Errorf("--bin-dir %q has to be an absolute path: the kubelet's --image-credential-provider-bin-dir", o.BinDir)
	case !filepath.IsAbs(o.ConfigDir):
		return fmt.Errorf("--config-dir %q has to be an absolute path: where the configuration goes", o.ConfigDir)
	case o.Every < 0:
		return errors.New("--every has to be longer than 0")
	case o.HostRoot != "" && o.Unit == "":
		return errors.New("--host-root is for --restart-unit")
	case strings.HasPrefix(o.Unit, "-") || strings.ContainsAny(o.Unit, "/ "):
		return fmt.Errorf("--restart-unit %q is no name of a unit", o.Unit)
	case o.Unit != "" && o.From == "":
		return errors.New("--restart-unit is for --from: a new version of the program takes no restart of the kubelet")
	}
	return nil
}
