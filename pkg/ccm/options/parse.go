package options

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/isthmus-cloud/isthmus/pkg/gcfg"
	"github.com/isthmus-cloud/isthmus/pkg/nearest"
)

// Parse parses args into the flags of all sections. Its errors are one line that names the
// flag and, for an unknown one, the nearest that exists. help and version report whether
// --help and --version were given; the flags after them are not checked then.
func Parse(sections *cliflag.NamedFlagSets, args []string) (help, version bool, err error) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc) // --cloud_config, as the framework takes it
	for _, name := range sections.Order {
		fs.AddFlagSet(sections.FlagSets[name])
	}
	err = fs.Parse(args)
	help, version = given(fs, "help"), given(fs, "version")
	switch {
	case help || version:
		return help, version, nil
	case err != nil:
		return false, false, flagError(fs, err)
	case fs.NArg() > 0:
		return false, false, fmt.Errorf("unexpected argument %q: all settings are flags (--name=value); see --help", fs.Arg(0))
	}
	return false, false, nil
}

// Values returns the values of all flags by their names, without the password that a URL may have, as that of --master.
func Values(sections *cliflag.NamedFlagSets) map[string]string {
	out := map[string]string{}
	for _, fs := range sections.FlagSets {
		fs.VisitAll(func(f *pflag.Flag) {
			out[f.Name] = gcfg.WithoutPassword(f.Value.String())
		})
	}
	return out
}

func given(fs *pflag.FlagSet, name string) bool {
	v, err := fs.GetBool(name)
	return err == nil && v
}

// flagError words err of fs.Parse.
func flagError(fs *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return errors.New(strings.TrimSpace(err.Error()))
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		return fmt.Errorf("unknown flag -%s: flags begin with two dashes; see --help", short)
	}
	var known []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if n := nearest.Of(name, known); n != "" {
		return fmt.Errorf("unknown flag --%s: did you mean --%s?", name, n)
	}
	return fmt.Errorf("unknown flag --%s: see --help for all flags", name)
}

// PrintHelp writes the flags by section, wrapped at cols columns (0: not at all).
func PrintHelp(w io.Writer, sections *cliflag.NamedFlagSets, cols int) {
	shown := cliflag.NamedFlagSets{FlagSets: sections.FlagSets}
	for _, name := range sections.Order {
		if sections.FlagSets[name].HasAvailableFlags() {
			shown.Order = append(shown.Order, name)
		}
	}
	cliflag.PrintSections(w, shown, cols)
}
