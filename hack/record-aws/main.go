// Command record-aws runs the binary of cloud-provider-aws' aws-cloud-controller-manager through the scenarios of
// test/differential/aws against the simulator and a real kube-apiserver, and writes what it did.
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
	"syscall"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/record"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record-aws:", err)
		os.Exit(1)
	}
}

// run records the groups that the flags name, one after the other.
func run(ctx context.Context) (err error) {
	binary := flag.String("ccm", "", "path of aws-cloud-controller-manager")
	version := flag.String("version", "", "its version: the binary knows it only when it was built with it")
	out := flag.String("out", "test/differential/aws/testdata", "folder of the recordings")
	only := flag.String("groups", "", "groups to record, comma-separated; all when empty")
	ours := flag.String("ours", "", "path of our cloud-controller-manager: what the existing manager does on what that has left is recorded, too")
	back := flag.Bool("back", false, "record only that")
	logs := flag.String("logs", "", "folder for what it prints and what it asks")
	flag.Parse()
	if *binary == "" || *version == "" {
		return errors.New("give -ccm, the path of aws-cloud-controller-manager, and -version")
	}
	plane, err := controlplane.Run(play.PlaneOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	for _, g := range script.Groups() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), g.Name) {
			continue
		}
		r := record.Recorder{Binary: *binary, Version: *version, Plane: plane, Logs: *logs}
		if *ours != "" {
			made, err := r.Back(ctx, &g, *ours)
			if err != nil {
				return err
			}
			if err := made.Write(*out); err != nil {
				return err
			}
			fmt.Printf("%s: the way back from %d phases\n", g.Name, len(made.Phases))
		}
		if *back {
			continue
		}
		made, err := r.Record(ctx, &g)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d scenarios, %d phases\n", g.Name, len(g.Scenarios), len(g.Phases()))
		if err := made.Write(*out); err != nil {
			return err
		}
	}
	return nil
}
