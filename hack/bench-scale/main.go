// Command bench-scale measures what the real cloud-controller-manager costs in clusters of several sizes: a real
// kube-apiserver and etcd, and a simulated OpenStack. It writes a table and a plot, and fails where a bound is not held.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

const help = `bench-scale: what the manager costs in clusters of several sizes

  make bench-scale
  make bench-scale ARGS='-nodes 1000 -services 100'

For each number of Nodes, a new etcd, kube-apiserver (from $KUBEBUILDER_ASSETS or bin/) and simulated OpenStack: all Nodes
are there, uninitialized, when the manager starts; then Services come, a Node joins, the manager is restarted, rests, and
refreshes the status of all Nodes. It takes about 20 minutes. Counts do not depend on the machine; times do, so run nothing else.

Flags:
`

// options are the flags.
type options struct {
	settings
	ours, markdown string
	keep           bool
}

// numbers is a flag of numbers, separated by commas, that rise.
type numbers []int

// String implements flag.Value.
func (n *numbers) String() string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(*n)), ","), "[]")
}

// Set implements flag.Value.
func (n *numbers) Set(text string) error {
	*n = nil
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(part)
		if err != nil || v < 1 {
			return fmt.Errorf("%q is no number above 0", part)
		}
		*n = append(*n, v)
	}
	if !slices.IsSorted(*n) {
		return errors.New("they have to rise")
	}
	return nil
}

func main() { rig.Main("bench-scale", start) }

func parse(args []string, out io.Writer) (*options, error) {
	o := &options{}
	nodes, services := numbers{1000, 5000, 15000}, numbers{100, 500}
	fs := rig.NewFlagSet("bench-scale", help, out)
	fs.Var(&nodes, "nodes", "how many Nodes; several `numbers` are several clusters")
	fs.Var(&services, "services", "how many Services; several `numbers` come one after the other")
	fs.IntVar(&o.members, "members", 50, "how many Nodes are members of each load balancer")
	fs.DurationVar(&o.delay, "delay", 150*time.Millisecond, "what each call of the cloud takes")
	fs.DurationVar(&o.pending, "pending", 2*time.Second, "how long a load balancer is busy after each change")
	fs.DurationVar(&o.timeout, "timeout", 20*time.Minute, "what each phase may take at most")
	fs.DurationVar(&o.idle, "idle", 30*time.Second, "how long a manager at rest is looked at")
	fs.StringVar(&o.ours, "ours", "", "`path` of the manager; without, it is built as make builds it")
	fs.StringVar(&o.markdown, "markdown", "", "`file` to write the page to, its plot beside it")
	fs.BoolVar(&o.keep, "keep", false, "keep the logs and say where they are")
	if err := rig.Parse(fs, args); err != nil {
		return nil, err
	}
	o.nodes, o.services = nodes, services
	o.quiet, o.cycle = 5*time.Second, time.Minute
	return o, nil
}

func start(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	return rig.InFolder(ctx, "bench-scale", o.keep, out, func(dir string) error { return o.run(ctx, dir, out) })
}

func (o *options) run(ctx context.Context, dir string, out io.Writer) error {
	r, err := o.measure(ctx, dir, out)
	if err != nil {
		return err
	}
	page := r.markdown(plotOf(filepath.Base(o.markdown)))
	fmt.Fprint(out, "\n", page)
	if o.markdown != "" {
		err = errors.Join(os.WriteFile(o.markdown, []byte(page), 0o644), os.WriteFile(plotOf(o.markdown), []byte(r.plot()), 0o644)) //nolint:gosec // everybody may read them
	}
	return errors.Join(r.failed, err)
}

func plotOf(markdown string) string { return strings.TrimSuffix(markdown, ".md") + ".svg" }

// measure measures all sizes.
func (o *options) measure(ctx context.Context, dir string, out io.Writer) (*report, error) {
	r := &report{settings: o.settings, load: loadNow(), plane: "unknown"}
	var err error
	if o.ours == "" {
		if o.ours, err = rig.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	if r.version, err = rig.VersionOf(ctx, o.ours); err != nil {
		return nil, err
	}
	for _, n := range o.nodes {
		res, err := measure(ctx, o.settings, n, o.ours, filepath.Join(dir, strconv.Itoa(n)), out)
		if err != nil {
			return nil, fmt.Errorf("%d Nodes: %w", n, err)
		}
		r.plane = res.plane
		r.results = append(r.results, res)
	}
	r.failed = check(r.results)
	return r, nil
}
