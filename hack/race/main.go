// Command race lets our cloud controller manager and a cloud's existing one, the real binaries, do the same work
// one after the other: each with a real kube-apiserver and a simulated cloud of its own. It prints one table of
// the time it takes, the calls of the cloud and the writes to the API server.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

const help = `race: our cloud controller manager against a cloud's existing one, at their default flags

  make race OCCM=/path/to/openstack-cloud-controller-manager
  go run ./hack/race -occm /path/to/openstack-cloud-controller-manager
  go run ./hack/race -nodes 5000 -services 0
  make race ARGS='-cloud aws -aws-ccm /path/to/aws-cloud-controller-manager -delay 100ms -services 100'
  make race ARGS='-cloud aws -aws-ccm /path/to/aws-cloud-controller-manager -services 100 -idle 1h'
  make race ARGS='-cloud vsphere -cpi /path/to/vsphere-cloud-controller-manager -services 0 -delay 10ms'

Each runs in a world of its own: a real etcd and kube-apiserver (from $KUBEBUILDER_ASSETS or bin/), and a
simulated cloud in which each call takes -delay and each change of a load balancer -pending. It works as a
ServiceAccount. Counted are the calls at the cloud, until the last one, and the writes in
kube-apiserver's audit log, leases aside. Without the existing manager's path, only ours runs.

With -idle there is no race: both do nothing, side by side, for that long after a quarter of an hour, and what they
do meanwhile is said for an hour.

It takes about 1.5 minutes for ours and 10 for OCCM. Times are those of this machine: run nothing else on it,
and look at the ratios. Counts do not depend on it.

Flags:
`

// options are the flags.
type options struct {
	cloud              string
	others             map[string]*string // by the cloud's name
	otherVersion, ours string
	ourArgs, otherArgs string
	size               size
	delays             delays
	timeout, idle      time.Duration
	rows               int // how many are played; 0 is all
	markdown           string
	keep               bool
}

func main() { rig.Main("race", start) }

func parse(args []string, out io.Writer) (*options, error) {
	o := &options{others: map[string]*string{}}
	fs := rig.NewFlagSet("race", help, out)
	fs.StringVar(&o.cloud, "cloud", cloudKinds()[0].name, "the `cloud` to race on")
	for _, k := range cloudKinds() {
		for _, before := range cloudKinds() { // clouds of one provider have one manager
			if before.other == k.other && o.others[before.name] != nil {
				o.others[k.name] = o.others[before.name]
			}
		}
		if o.others[k.name] == nil {
			o.others[k.name] = fs.String(strings.ToLower(k.other), "", "`path` of "+k.name+"'s existing manager, "+k.other)
		}
	}
	fs.StringVar(&o.otherVersion, "other-version", "", "the existing manager's `version`, where its binary does not know it")
	fs.StringVar(&o.ours, "ours", "", "`path` of our manager; without, it is built as make builds it")
	fs.StringVar(&o.ourArgs, "our-args", "", "more `flags` of our manager, separated by spaces")
	fs.StringVar(&o.otherArgs, "other-args", "", "more `flags` of the existing manager, separated by spaces")
	fs.IntVar(&o.size.nodes, "nodes", 500, "how many Nodes")
	fs.IntVar(&o.size.services, "services", 14, "how many Services; 0 leaves all that needs Services out")
	fs.DurationVar(&o.delays.call, "delay", 20*time.Millisecond, "what each call of the cloud takes")
	fs.DurationVar(&o.delays.pending, "pending", 2*time.Second, "how long a load balancer is busy after each change")
	fs.DurationVar(&o.timeout, "timeout", 15*time.Minute, "what each row may take at most")
	fs.DurationVar(&o.idle, "idle", 0, "count for so `long` what is done while nothing changes, in place of the race")
	fs.IntVar(&o.rows, "rows", 0, "play only so `many` rows, the first ones; 0 is all")
	fs.StringVar(&o.markdown, "markdown", "", "`file` to write the table to, too, as Markdown")
	fs.BoolVar(&o.keep, "keep", false, "keep the logs and say where they are")
	if err := rig.Parse(fs, args); err != nil {
		return nil, err
	}
	if o.others[o.cloud] == nil {
		return nil, fmt.Errorf("-cloud %s is unknown: see -help", o.cloud)
	}
	if o.size.nodes < 1 || o.size.services < 0 || o.rows < 0 {
		return nil, fmt.Errorf("-nodes %d, -services %d and -rows %d: there must be a Node, and no less than no Service and row", o.size.nodes, o.size.services, o.rows)
	}
	for _, k := range cloudKinds() {
		if k.name == o.cloud && k.nodesOnly && o.size.services > 0 {
			return nil, fmt.Errorf("-cloud %s has no load balancers here: say -services 0", o.cloud)
		}
	}
	return o, nil
}

func start(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	return rig.InFolder(ctx, "race", o.keep, out, func(dir string) error { return o.run(ctx, dir, out) })
}

func (o *options) run(ctx context.Context, dir string, out io.Writer) error {
	t, err := o.prepare(ctx, dir, out)
	if err != nil {
		return err
	}
	if o.idle > 0 {
		err = o.idleHour(ctx, t, dir, out)
	} else {
		err = o.raceAll(ctx, t, dir, out)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s", t.text())
	if o.markdown == "" {
		return nil
	}
	return os.WriteFile(o.markdown, []byte(t.markdown()), 0o644) //nolint:gosec // a document
}

// prepare finds the contenders.
func (o *options) prepare(ctx context.Context, dir string, out io.Writer) (*table, error) {
	t := &table{options: o}
	for _, k := range cloudKinds() {
		if k.name == o.cloud {
			t.kind = k
		}
	}
	ours := &contender{name: "ours", binary: o.ours, account: rig.OurAccount, args: strings.Fields(o.ourArgs)}
	if ours.binary == "" {
		fmt.Fprintln(out, "building our manager …")
		var err error
		if ours.binary, err = rig.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	t.contenders = append(t.contenders, ours)
	if path := *o.others[o.cloud]; path != "" {
		t.contenders = append(t.contenders, &contender{name: t.kind.other, binary: path, version: o.otherVersion, account: rig.OtherAccount, args: strings.Fields(o.otherArgs)})
	} else {
		fmt.Fprintf(out, "without -%s only ours runs\n", strings.ToLower(t.kind.other))
	}
	for _, c := range t.contenders {
		var err error
		if c.binary, err = filepath.Abs(c.binary); err != nil {
			return nil, err
		}
		if c.version == "" {
			if c.version, err = rig.VersionOf(ctx, c.binary); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range scenarios() {
		if (!s.services || o.size.services > 0) && (o.rows == 0 || len(t.rows) < o.rows) {
			t.rows = append(t.rows, row{scenario: s, title: s.title(o.size)})
		}
	}
	return t, nil
}

// raceAll lets one contender race after the other.
func (o *options) raceAll(ctx context.Context, t *table, dir string, out io.Writer) error {
	for i := range t.contenders {
		if err := o.race(ctx, t, i, dir, out); err != nil {
			return fmt.Errorf("%s: %w", t.contenders[i].name, err)
		}
	}
	return nil
}

// race plays all rows with contender i.
func (o *options) race(ctx context.Context, t *table, i int, dir string, out io.Writer) (err error) {
	c := t.contenders[i]
	t.loads = append(t.loads, load()...)
	var r *run
	defer func() {
		if r != nil {
			err = errors.Join(err, r.end())
		}
	}()
	for k := range t.rows {
		row := &t.rows[k]
		if row.scenario.fresh {
			if r != nil {
				if err := t.finish(r); err != nil {
					return err
				}
				r = nil
			}
			fmt.Fprintf(out, "%s: a new cluster and cloud …\n", c.name)
			folder := filepath.Join(dir, fmt.Sprintf("%d-%d", i, k))
			if err := os.Mkdir(folder, 0o700); err != nil {
				return err
			}
			if r, err = begin(ctx, c, t.kind, o.delays, o.size, folder); err != nil {
				return err
			}
		}
		one, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("after %s: see -timeout", o.timeout))
		r.progress = rig.NewProgress(out, c.name+": "+row.title)
		got, err := row.scenario.measure(one, r)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", row.title, err)
		}
		row.results = append(row.results, got)
		if !r.first.IsZero() {
			fmt.Fprintf(out, "  the first address after %.1f s\n", got.first.Seconds())
		}
		fmt.Fprintf(out, "✓ %s: %s: %.1f s, %d reads and %d writes of the cloud, %d writes to the API server\n",
			c.name, row.title, got.time.Seconds(), got.cloud.reads, got.cloud.writes, got.writes)
	}
	if len(t.used) == i { // it is noted when the last row begins anew, and this race has only one beginning
		last := r
		r = nil
		return t.finish(last)
	}
	return nil
}
