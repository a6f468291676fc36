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
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/record"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
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
	ours := flag.String("ours", "", "path of our cloud-controller-manager: what OCCM does on what that has left is recorded, too")
	back := flag.Bool("back", false, "record only that, into the recordings that are there")
	version := flag.String("version", "", "its version, where the binary does not know it")
	real := flag.Bool("real", false, "record what is compared with a real cloud, in a simulator set up like it, into the folder that belongs to that")
	width := flag.Int("width", 2, "how many groups are recorded side by side")
	flag.Parse()
	if *binary == "" {
		return fmt.Errorf("give -occm, the path of openstack-cloud-controller-manager")
	}
	if *version == "" {
		told, err := differential.Version(ctx, *binary)
		if err != nil {
			return err
		}
		*version = told
	}
	groups := script.Groups()
	if *real {
		groups, *out = script.RealGroups(), recording.SimulatorLike(*out)
	}
	if *only != "" {
		groups = slices.DeleteFunc(groups, func(g script.Group) bool { return !slices.Contains(strings.Split(*only, ","), g.Name) })
	}
	work := make(chan *script.Group)
	failed := make(chan error, len(groups)+*width)
	var wg sync.WaitGroup
	for range *width {
		wg.Go(func() {
			plane, err := controlplane.Run(play.PlaneOptions())
			if err != nil {
				failed <- err
				for range work { // the other workers must not block
				}
				return
			}
			for g := range work {
				r := &job{record.Recorder{Binary: *binary, Version: *version, Plane: plane, Logs: *logs}, *out, *ours, *back, *real}
				failed <- r.record(ctx, g)
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
	var err error
	for e := range failed {
		if e != nil {
			fmt.Fprintln(os.Stderr, e)
			err = fmt.Errorf("not all groups are recorded")
		}
	}
	return err
}

// job is how a group is recorded.
type job struct {
	record.Recorder
	out, ours  string
	back, real bool
}

func (j *job) record(ctx context.Context, g *script.Group) error {
	var made *recording.Recording
	var err error
	if j.back {
		made, err = recording.Read(j.out, g.Name)
	} else {
		made, err = j.Record(ctx, g)
	}
	if err == nil && j.ours != "" && !j.real {
		made.Backs, err = j.Back(ctx, g, j.ours)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d scenarios, %d phases\n", g.Name, len(g.Scenarios), len(g.Phases()))
	return made.Write(j.out)
}
