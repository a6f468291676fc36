package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/entries"
	"github.com/isthmus-cloud/isthmus/credentialprovider/kubelet"
)

const configHelp = `isthmus-credential-provider config writes the kubelet's CredentialProviderConfig for the chosen
registries, to stdout or to a file.

What the provider is to serve, as when the kubelet runs it:
  --registries, --identity, --cloud-config, or --config (see isthmus-credential-provider --help)
  --node-config-path PATH  where the file of --config or --cloud-config is on the nodes; not needed
                           if it is the same there, in one of SYSTEMDIRS

The entry:
  --name NAME              the program's name in the kubelet's directory
                           (default isthmus-credential-provider)
  --entry-per-registry     an entry a kind of registry, NAME-<kind>, in place of one for all; the
                           kubelet wants a program of each name: ln -s NAME NAME-<kind>
  --match-images LIST      in place of all registries that can be served, separated by commas
  --partition LIST         with ecr: its registries in these partitions of AWS alone, separated by
                           commas: PARTITIONS
  --cache-duration TIME    how long the kubelet keeps credentials that do not say so (default 10m)
  --env NAME=VALUE         a variable for the provider, and no secret: everybody may read the file; may
                           be repeated
  --audience AUDIENCE      with the identity of service accounts: for whom their tokens are, where
                           it is not the cloud's usual one
  --cache-type TYPE        ServiceAccount (default) or Token: for whom credentials are kept

Where to:
  --output FILE            write this file at once (atomic), and only if it is not there yet or is
                           the same; default: stdout
  --force                  replace a file with other content
  --rbac                   print the ClusterRole and the ClusterRoleBinding without which the nodes
                           get no tokens for the audience, in place of the configuration
  --help                   print this text
`

// configOptions are the flags of the command config.
type configOptions struct {
	entries.Options
	env         variables
	output      string
	force, rbac bool
}

// variables is a flag NAME=VALUE that may be repeated.
type variables []kubelet.Variable

// String implements flag.Value.
func (v *variables) String() string { return "" }

// Set implements flag.Value.
func (v *variables) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return errors.New("it has to be NAME=VALUE")
	}
	if slices.ContainsFunc(*v, func(o kubelet.Variable) bool { return o.Name == key }) {
		return fmt.Errorf("%s is there twice", key)
	}
	*v = append(*v, kubelet.Variable{Name: key, Value: value})
	return nil
}

// parseConfig is the command config.
func parseConfig(args []string, s streams) (work, int) {
	var o configOptions
	flags := flag.NewFlagSet("config", flag.ContinueOnError)
	registerSource(flags, &o.Source)
	flags.StringVar(&o.Name, "name", name, "")
	flags.StringVar(&o.NodePath, "node-config-path", "", "")
	flags.StringVar(&o.Partitions, "partition", "", "")
	flags.BoolVar(&o.PerRegistry, "entry-per-registry", false, "")
	flags.StringVar(&o.MatchImages, "match-images", "", "")
	flags.DurationVar(&o.CacheDuration, "cache-duration", 10*time.Minute, "")
	flags.StringVar(&o.CacheType, "cache-type", kubelet.CacheServiceAccount, "")
	flags.Var(&o.env, "env", "")
	flags.StringVar(&o.Audience, "audience", "", "")
	flags.StringVar(&o.output, "output", "", "")
	flags.BoolVar(&o.force, "force", false, "")
	flags.BoolVar(&o.rbac, "rbac", false, "")
	help := strings.NewReplacer("PARTITIONS", strings.Join(config.Partitions(), ", "), "SYSTEMDIRS", strings.Join(entries.SystemDirs(), ", ")).Replace(configHelp)
	if code, ok := parseCommand(flags, args, help, s); !ok {
		return nil, code
	}
	o.Env = o.env
	if err := o.check(); err != nil {
		complain(s.err, err)
		return nil, exitUsage
	}
	return func(context.Context) int {
		if err := o.write(s); err != nil {
			complain(s.err, err)
			return exitFailed
		}
		return exitOK
	}, exitOK
}

// check finds flags that do not go together.
func (o configOptions) check() error {
	switch {
	case o.force && o.output == "":
		return errors.New("--force is for --output")
	case o.rbac && o.output != "":
		return errors.New("--rbac prints to stdout; remove --output")
	}
	return o.Check(o.rbac)
}

// write makes what was asked for and puts it where it belongs.
func (o configOptions) write(s streams) error {
	render := o.Config
	if o.rbac {
		render = o.RBAC
	}
	data, err := render()
	switch {
	case err != nil:
		return err
	case o.output == "":
		return write(s.out, string(data))
	}
	return o.writeFile(data, s)
}

func (o configOptions) writeFile(data []byte, s streams) error {
	changed, err := kubelet.WriteFile(o.output, data, o.force)
	switch {
	case errors.Is(err, kubelet.ErrDiffers):
		return fmt.Errorf("--output %s: %w; look at it, and give --force to replace it", o.output, err)
	case err != nil:
		return fmt.Errorf("--output: %w", err)
	case changed:
		return write(s.out, o.output+" written; the kubelet reads it when it starts: restart it\n")
	}
	return write(s.out, o.output+" is as it should be\n")
}
