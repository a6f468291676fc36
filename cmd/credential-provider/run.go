package main

import (
	"bytes"
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
	"github.com/isthmus-cloud/isthmus/pkg/version"
)

const name = "isthmus-credential-provider"

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
	config      string
	registries  string
	identity    string
	cloudConfig string
	timeout     time.Duration
	verbosity   int
	version     bool
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
	if err := serve(ctx, o, s.in, s.out, s.err); err != nil {
		refuse(s.err, err)
		return exitFailed
	}
	return exitOK
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.register(flags)
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

// register adds the flags that say what to serve.
func (o *options) register(flags *flag.FlagSet) {
	o.timeout = defaultTimeout
	flags.StringVar(&o.config, "config", "", "")
	flags.StringVar(&o.registries, "registries", "", "")
	flags.StringVar(&o.identity, "identity", "", "")
	flags.StringVar(&o.cloudConfig, "cloud-config", "", "")
}

// check finds flags that do not go together.
func (o options) check() error {
	switch {
	case o.timeout <= 0 || o.timeout > maxTimeout:
		return fmt.Errorf("--timeout is %s; it has to be more than 0 and at most %s, because the kubelet kills its providers after a minute", o.timeout, maxTimeout)
	case o.version:
		return nil
	case o.config != "" && (o.registries != "" || o.identity != "" || o.cloudConfig != ""):
		return errors.New("--config holds everything; remove --registries, --identity and --cloud-config")
	case o.config == "" && o.registries == "" && o.cloudConfig == "":
		return fmt.Errorf("nothing says which registries to serve; give --registries=%s or --config FILE (see --help)", registryNames()[0])
	case o.config == "":
		_, err := o.configuration() // of flags alone; it reads nothing
		return err
	}
	return nil
}

// configuration is what --config or the flags in its place say.
func (o options) configuration() (*config, error) {
	if o.config != "" {
		return readConfig(o.config)
	}
	identity, err := credentialprovider.ParseIdentity(o.identity)
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	names := strings.Split(o.registries, ",")
	if o.registries == "" { // --cloud-config alone
		names = []string{"openstack"}
	}
	return chosen(names, identity, o.cloudConfig)
}

// serve answers one request. What blocks in it (a stdin that is never closed) does not keep
// the program from ending in time.
func serve(ctx context.Context, o options, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var response bytes.Buffer
	var warnings []string
	done := make(chan error, 1)
	asked := make(chan struct{})
	go func() {
		request, err := credentialprovider.ReadRequest(stdin)
		close(asked)
		if err == nil {
			warnings, err = answer(ctx, o, request, &response)
		}
		done <- err
	}()
	ended, err := wait(ctx, done)
	switch {
	case !ended:
		return unfinished(ctx, o, asked)
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		err = fmt.Errorf("stopped by a signal: %w", err)
	}
	for _, w := range warnings {
		complain(stderr, errors.New("warning: "+w))
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(stdout, &response)
	return err
}

// grace is how long after the deadline or a signal the answer may still take: a request to
// the cloud that was cut short says by itself what it was waiting for.
const grace = 500 * time.Millisecond

// wait returns true and what done delivers, or false when it delivers nothing in time.
func wait(ctx context.Context, done <-chan error) (bool, error) {
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
		return false, nil
	}
}

// unfinished says what was waited for when there was no answer in time.
func unfinished(ctx context.Context, o options, asked <-chan struct{}) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("stopped by a signal before there was an answer")
	}
	select {
	case <-asked:
		return fmt.Errorf("no answer after %s (--timeout); something on this machine blocks: a file of the configuration on a file system that hangs, or a program that it names", o.timeout)
	default:
		return fmt.Errorf("no request on stdin after %s (--timeout); stdin has to be closed after the request", o.timeout)
	}
}

func answer(ctx context.Context, o options, request *credentialprovider.Request, out io.Writer) (warnings []string, err error) {
	c, err := o.configuration()
	if err != nil {
		return nil, err
	}
	set := c.set(o.forProviders(), func(w string) { warnings = append(warnings, w) })
	if o.verbosity >= detail && len(request.Ignored) > 0 {
		warnings = append(warnings, fmt.Sprintf("fields of the request that are not known here are ignored: %q", request.Ignored))
	}
	response, err := set.Answer(ctx, request)
	if err != nil {
		return warnings, err
	}
	return warnings, response.Write(out)
}

// forProviders is what every kind of registry is told. What hangs costs a third of the time at most, as no request is
// sent again that is not answered in time: then there is time left to say so, and for what else is asked.
func (o options) forProviders() credentialprovider.Options {
	return credentialprovider.Options{UserAgent: name + "/" + version.String(), Timeout: o.timeout / 3}
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
