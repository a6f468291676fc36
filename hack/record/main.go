// Command record runs the binary of a cloud's existing manager through the scenarios of test/differential/<cloud> against the simulator and
// a real kube-apiserver, and writes what it did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	manager, version, out, groups, logs, ours string
	back, real                                bool
	width                                     int
}

// cloud is one with an existing manager.
type cloud struct {
	plane controlplane.Options
	// groups are the names of what is recorded.
	groups []string
	// record records one of them.
	record func(ctx context.Context, r *record.Recorder, group string) error
}

func parse(name string, args []string) (*settings, error) {
	var s settings
	fs := flag.NewFlagSet("record "+name, flag.ContinueOnError)
	fs.StringVar(&s.manager, "manager", "", "path of the existing manager")
	fs.StringVar(&s.version, "version", "", "its version, where the binary does not know it")
	fs.StringVar(&s.out, "out", "test/differential/"+name+"/testdata", "folder of the recordings")
	fs.StringVar(&s.groups, "groups", "", "groups to record, comma-separated; all when empty")
	fs.StringVar(&s.logs, "logs", "", "folder for what it prints, and what it asks")
	fs.StringVar(&s.ours, "ours", "", "path of our cloud-controller-manager: what the existing one does on what that has left is recorded, too")
	fs.BoolVar(&s.back, "back", false, "record only that")
	fs.BoolVar(&s.real, "real", false, "record what is compared with a real cloud, in a simulator set up like it, into the folder that belongs to that")
	fs.IntVar(&s.width, "width", 1, "how many groups are recorded side by side")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if s.manager == "" || fs.NArg() > 0 {
		return nil, errors.New("give -manager, the path of the existing manager, and flags alone")
	}
	return &s, nil
}

func run(ctx context.Context, args []string) error {
	clouds := map[string]func(*settings) cloud{"aws": ofAWS, "openstack": ofOpenStack, "vsphere": ofVSphere}
	if len(args) == 0 || clouds[args[0]] == nil {
		return errors.New("give the cloud, aws, openstack or vsphere, and then flags")
	}
	s, err := parse(args[0], args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.version == "" {
		if s.version, err = differential.Version(ctx, s.manager); err != nil {
			return err
		}
	}
	c := clouds[args[0]](s)
	if s.groups != "" {
		c.groups = slices.DeleteFunc(c.groups, func(g string) bool { return !slices.Contains(strings.Split(s.groups, ","), g) })
	}
	return c.all(ctx, s)
}

// all records the groups, so many side by side.
func (c *cloud) all(ctx context.Context, s *settings) error {
	work := make(chan string)
	failed := make(chan error, len(c.groups)+s.width)
	var wg sync.WaitGroup
	for range s.width {
		wg.Go(func() {
			plane, err := controlplane.Run(c.plane)
			if err != nil {
				failed <- err
				for range work { // the other workers must not block
				}
				return
			}
			for g := range work {
				failed <- c.record(ctx, &record.Recorder{Binary: s.manager, Version: s.version, Plane: plane, Logs: s.logs}, g)
			}
			failed <- plane.Stop()
		})
	}
	for _, g := range c.groups {
		work <- g
	}
	close(work)
	wg.Wait()
	close(failed)
	var err error
	for e := range failed {
		if e != nil {
			fmt.Fprintln(os.Stderr, e)
			err = errors.New("not all groups are recorded")
		}
	}
	return err
}
