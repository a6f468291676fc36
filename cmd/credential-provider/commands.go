package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command is what the program does for people; without one it is the kubelet's plugin. The
// first argument names it.
type command struct {
	name string
	// summary is its line in --help.
	summary string
	// parse gets the arguments after the name and returns what to do, or none with the exit code.
	parse func(args []string, s streams) (work, int)
}

// work is what a command does when its flags are right. It returns the exit code.
type work func(ctx context.Context) int

// commands are all commands.
func commands() []command {
	return []command{
		{"config", "write the kubelet's CredentialProviderConfig, and the RBAC that it needs", parseConfig},
		{"install", "put the program and its configuration on a node", parseInstall},
		{"check", "look for what is wrong with the kubelet's configuration, and try it", parseCheck},
	}
}

// dispatch runs the command that args name. It returns false where they name none and the
// program is to be the plugin: the kubelet's arguments are flags.
func dispatch(ctx context.Context, args []string, s streams) (code int, done bool) {
	if len(args) == 0 || args[0] == "" || args[0][0] == '-' {
		return 0, false
	}
	var names []string
	for _, c := range commands() {
		if c.name == args[0] {
			do, code := c.parse(args[1:], s)
			if do != nil {
				code = do(ctx)
			}
			return code, true
		}
		names = append(names, c.name)
	}
	hint := ""
	if near := nearest.Of(args[0], names); near != "" {
		hint = fmt.Sprintf("did you mean %s? ", near)
	}
	refuse(s.err, fmt.Errorf("unknown command %q; %ssee --help", args[0], hint))
	return exitUsage, true
}

// parseCommand parses a command's flags. It returns false with the exit code when there is
// nothing more to do: --help was asked for, or the flags are wrong.
func parseCommand(flags *flag.FlagSet, args []string, text string, s streams) (code int, ok bool) {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOf(write(s.out, text)), false
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err != nil {
		complain(s.err, fmt.Errorf("%w; see %s %s --help", flagError(flags, err), name, flags.Name()))
		return exitUsage, false
	}
	return exitOK, true
}

// flagError is what is wrong with flags; of one that there is not, it says which may be meant.
func flagError(flags *flag.FlagSet, err error) error {
	_, unknown, ok := strings.Cut(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if near := nearest.Of(unknown, names); near != "" {
		return fmt.Errorf("unknown flag --%s; did you mean --%s?", unknown, near)
	}
	return fmt.Errorf("unknown flag --%s", unknown)
}

// helpText is what --help prints.
func helpText() string {
	var list strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&list, "  %-10s %s\n", c.name, c.summary)
	}
	if list.Len() == 0 {
		return help
	}
	return help + "\nCommands, for people (" + name + " COMMAND --help):\n" + list.String()
}
