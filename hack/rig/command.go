package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
)

// Main is the main function of a program that runs managers: it ends by a signal, too, and with 1 for an error.
func Main(program string, run func(ctx context.Context, args []string, out io.Writer) error) {
	controlplane.Silence()
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, program+":", err)
		os.Exit(1)
	}
}

// NewFlagSet returns flags whose help begins with the given text.
func NewFlagSet(program, help string, out io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet(program, flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() { fmt.Fprint(out, help); fs.PrintDefaults() }
	return fs
}

// Parse parses arguments that are flags only.
func Parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see -help", fs.Arg(0))
	}
	return nil
}

// InFolder runs with a folder for files and logs, which is removed afterwards. It is kept, and out told where it is,
// where keep says so and where run fails by itself.
func InFolder(ctx context.Context, program string, keep bool, out io.Writer, run func(dir string) error) error {
	dir, err := os.MkdirTemp("", "isthmus-"+program+"-")
	if err != nil {
		return err
	}
	err = run(dir)
	if keep || err != nil && ctx.Err() == nil {
		fmt.Fprintln(out, "the logs are in", dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(dir))
}
