// Command record-occm runs the binary of openstack-cloud-controller-manager through the scenarios of
// test/differential/openstack against the simulator and a real kube-apiserver, and writes what it did.
package main

import (
	"context"
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
	"github.com/isthmus-cloud/isthmus/test/differential/openstack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record-occm:", err)
		os.Exit(1)
	}
}

// run records the groups that the flags name, so many side by side.
func run(ctx context.Context) error {
	binary := flag.String("occm", "", "path of openstack-cloud-controller-manager")
	out := flag.String("out", "test/differential/openstack/testdata", "folder of the recordings")
	only := flag.String("groups", "", "groups to record, comma-separated; all when empty")
	logs := flag.String("logs", "", "folder for what it prints")
	width := flag.Int("width", 2, "how many groups are recorded side by side")
	flag.Parse()
	if *binary == "" {
		return fmt.Errorf("give -occm, the path of openstack-cloud-controller-manager")
	}
	version, err := differential.Version(ctx, *binary)
	if err != nil {
		return err
	}
	groups := openstack.Groups()
	if *only != "" {
		groups = slices.DeleteFunc(groups, func(g openstack.Group) bool { return !slices.Contains(strings.Split(*only, ","), g.Name) })
	}
	work := make(chan *openstack.Group)
	failed := make(chan error, len(groups)+*width)
	var wg sync.WaitGroup
	for range *width {
		wg.Go(func() {
			plane, err := controlplane.Run(openstack.PlaneOptions())
			if err != nil {
				failed <- err
				for range work { //nolint:revive // the others' work must not block
				}
				return
			}
			for g := range work {
				failed <- record(ctx, &openstack.Recorder{Binary: *binary, Version: version, Plane: plane, Logs: *logs}, g, *out)
			}
			failed <- plane.Stop()
		})
	}
	for i := range groups {
		work <- &groups[i]
	}
	close(work)
	wg.Wait()
	close(failed)
	for e := range failed {
		if e != nil {
			fmt.Fprintln(os.Stderr, e)
			err = fmt.Errorf("not all groups are recorded")
		}
	}
	return err
}

func record(ctx context.Context, r *openstack.Recorder, g *openstack.Group, out string) error {
	recording, err := r.Record(ctx, g)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d scenarios, %d phases\n", g.Name, len(g.Scenarios), len(g.Phases()))
	return recording.Write(out)
}
