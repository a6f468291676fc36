// Command quickstart shows Isthmus at work on one machine: a simulated cloud, a real
// etcd and kube-apiserver, and the real binaries, run as a cluster runs them. It needs no
// root, and several can run side by side.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

const usage = `quickstart: see Isthmus at work on this machine

  make quickstart               run the steps, then stay for you to look around (Ctrl-C ends and cleans up)
  make quickstart ARGS=--exit   run the steps and end; the exit code is not 0 when one failed
  make quickstart CLOUD=aws     the same on a simulated AWS
  make quickstart CLOUD=vsphere what there is of vSphere, on a simulated vCenter
  make quickstart CLUSTER=1     a whole cluster on a simulated OpenStack instead, with kubelets, pods and traffic (Debian 12, root)

Flags:
`

func main() {
	os.Exit(run())
}

func run() int {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	exit := flags.Bool("exit", false, "end after the steps instead of waiting for Ctrl-C")
	cloud := flags.String("cloud", "openstack", "simulated `cloud`: openstack, aws or vsphere")
	whole := flags.Bool("cluster", false, "start a whole cluster; hack/sandbox does this")
	bin := flags.String("bin", "bin", "`folder` of the binaries that make build and make bin/kubectl made")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: unexpected argument %q: see --help\n", flags.Arg(0))
		return 2
	}
	steps, ok := map[string]func(*world) []step{"openstack": playOpenStack, "aws": playAWS, "vsphere": playVSphere}[*cloud]
	if !ok {
		fmt.Fprintf(os.Stderr, "quickstart: there is no simulated cloud %q: CLOUD is openstack, aws or vsphere\n", *cloud)
		return 2
	}
	if *whole && *cloud != "openstack" {
		fmt.Fprintf(os.Stderr, "quickstart: a whole cluster is on a simulated OpenStack alone: leave out CLUSTER=1 or CLOUD=%s\n", *cloud)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	// It comes with writes to connections, too, and so ends nothing: who prints looks whether somebody reads.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if *whole {
		if err := playCluster(ctx, *exit); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "quickstart:", err)
			return 1
		}
		return 0
	}
	binDir, err := filepath.Abs(*bin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		return 1
	}
	return play(ctx, stop, &world{bin: binDir}, steps, *exit)
}

// endings are the signals after which everything must be cleaned up: also when the terminal
// is closed, unless nohup was asked for that not to matter.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// play runs the steps and, unless exit is set, stays until ctx ends.
func play(ctx context.Context, stop func(), w *world, steps func(*world) []step, exit bool) int {
	dir, err := os.MkdirTemp("", "isthmus-quickstart-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		return 1
	}
	w.dir = dir
	ctx, unread := context.WithCancel(ctx)
	defer unread()
	failed := w.runSteps(ctx, unread, steps(w))
	interrupted := ctx.Err() != nil
	if !exit && !interrupted && !failed {
		w.lookAround()
		<-ctx.Done()
	}
	stop() // a second Ctrl-C ends at once
	fmt.Println("\ncleaning up …")
	if failed && !interrupted {
		fmt.Printf("the logs are kept in %s\n", dir)
	} else {
		w.onClose(func() error { return os.RemoveAll(dir) })
	}
	if err := w.close(); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart: clean up:", err)
		return 1
	}
	if failed || (interrupted && exit) {
		return 1
	}
	return 0
}
