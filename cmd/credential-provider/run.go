package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/credentialprovider"
	"github.com/isthmus-cloud/isthmus/credentialprovider/config"
	"github.com/isthmus-cloud/isthmus/credentialprovider/plugin"
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

const name = credentialprovider.Program

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// maxTimeout is a little less than the minute after which the kubelet kills a provider
// without a word.
const maxTimeout = 55 * time.Second

const defaultTimeout = 30 * time.Second

// garbage lets the plugin end before its first garbage collection, which comes at 4 MiB times a hundredth of this: most of
// what it ever allocates are the system's CAs, which stay.
const garbage = 800

// detail is the verbosity (--v) from which on more than what is wrong is written.
const detail = 4

type options struct {
	source    config.Source
	timeout   time.Duration
	verbosity int
	version   bool
}

// run is the program: it returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	if code, done := dispatch(ctx, args, s); done {
		return code
	}
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOf(write(s.out, helpText()))
	case err != nil:
		refuse(s.err, err)
		return exitUsage
	case o.version:
		return exitOf(write(s.out, name+" "+version.String()+"\n"))
	}
	debug.SetGCPercent(garbage)
	warnings, err := plugin.Options{Source: o.source, Timeout: o.timeout, Verbose: o.verbosity >= detail}.Serve(ctx, s.in, s.out)
	for _, w := range warnings {
		complain(s.err, errors.New("warning: "+w))
	}
	if err != nil {
		refuse(s.err, err)
		return exitFailed
	}
	return exitOK
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	registerSource(flags, &o.source)
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "")
	flags.IntVar(&o.verbosity, "v", 0, "")
	flags.BoolVar(&o.version, "version", false, "")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w; see --help", flagError(flags, err))
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	}
	return o, o.check()
}

// registerSource adds the flags that say what to serve.
func registerSource(flags *flag.FlagSet, s *config.Source) {
	flags.StringVar(&s.File, "config", "", "")
	flags.StringVar(&s.Registries, "registries", "", "")
	flags.StringVar(&s.Identity, "identity", "", "")
	flags.StringVar(&s.CloudConfig, "cloud-config", "", "")
}

// check finds flags that do not go together.
func (o options) check() error {
	switch {
	case o.timeout <= 0 || o.timeout > maxTimeout:
		return fmt.Errorf("--timeout is %s; it has to be more than 0 and at most %s, because the kubelet kills its providers after a minute", o.timeout, maxTimeout)
	case o.version:
		return nil
	}
	return o.source.Check()
}

// complain writes one line, whatever the error looks like.
func complain(w io.Writer, err error) {
	_, _ = io.WriteString(w, complaint(err)+"\n") // there is nowhere else to say it
}

// refuse is complain as the last that the plugin says. The kubelet makes one value of its log of
// all that was written, which it spreads over three lines if there is a line's end in it; so
// that is left out where no terminal needs it.
func refuse(w io.Writer, err error) {
	if f, ok := w.(*os.File); ok {
		if info, statErr := f.Stat(); statErr == nil && info.Mode()&os.ModeCharDevice == 0 {
			_, _ = io.WriteString(w, complaint(err))
			return
		}
	}
	complain(w, err)
}

func complaint(err error) string {
	line := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return name + ": " + line
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

func exitOf(err error) int {
	if err != nil {
		return exitFailed
	}
	return exitOK
}
