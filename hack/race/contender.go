package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

// contender is a controller manager that races.
type contender struct {
	// name heads its column.
	name    string
	binary  string
	version string
	account string
	// args are flags beside those that all have.
	args []string
}

// run is one contender in a world and a cluster of its own.
type run struct {
	*contender
	*rig.Cluster
	world world
	kind  cloudKind
	size  size
	dir   string

	// progress is told how far the row is.
	progress *rig.Progress
	process  *rig.Process
	used     rig.Usage
	machines []machine
	// first is when the first Service of a row had its address.
	first time.Time
}

// size is how much there is of everything.
type size struct{ nodes, services int }

// begin makes a world and a cluster for a contender, which does not run yet.
func begin(ctx context.Context, c *contender, kind cloudKind, d delays, s size, dir string) (_ *run, err error) {
	r := &run{contender: c, kind: kind, size: s, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.end())
		}
	}()
	if r.world, err = kind.open(d); err != nil {
		return nil, err
	}
	if err := os.WriteFile(r.file("cloud.conf"), []byte(r.world.config()), 0o600); err != nil {
		return nil, err
	}
	if r.Cluster, err = rig.StartCluster(ctx, c.account, dir); err != nil {
		return r, err
	}
	r.ServiceAnnotations = kind.annotations
	return r, nil
}

func (r *run) file(name string) string { return filepath.Join(r.dir, name) }

// everybody are the flags that all contenders run with. The status of all Nodes, which is refreshed every five
// minutes, would come into whatever is measured then; routes need a range that the race has no use for.
func everybody() []string {
	return []string{"--configure-cloud-routes=false", "--node-status-update-frequency=24h", "--secure-port=0"}
}

func (r *run) startManager(more ...string) error {
	args := append([]string{
		"--cloud-provider=" + r.kind.provider, "--cloud-config=" + r.file("cloud.conf"), "--kubeconfig=" + r.file("kubeconfig"),
	}, everybody()...)
	p, err := rig.StartProcess(r.binary, r.file("log"), r.world.environ(), append(append(args, r.args...), more...)...)
	r.process = p
	return err
}

func (r *run) stopManager() {
	if r.process == nil {
		return
	}
	r.process.Stop()
	r.used, r.process = r.used.Plus(r.process.Used()), nil
}

func (r *run) end() error {
	r.stopManager()
	var err error
	if r.Cluster != nil {
		err = r.End()
	}
	if r.world != nil {
		r.world.close()
	}
	return err
}

// until waits until done says so; seen is what to show meanwhile.
func (r *run) until(ctx context.Context, done func() (ok bool, seen string)) error {
	return r.waiting().Until(ctx, done)
}

func (r *run) waiting() rig.Wait {
	return rig.Wait{Every: 100 * time.Millisecond, Process: r.process, Progress: r.progress}
}

// quiet is how long there must be neither a call nor a write until a contender has nothing left to do: longer than
// the pauses between two looks at a load balancer that is busy.
const quiet = 4 * time.Second

// settle waits until the contender has nothing left to do, and returns when it did the last of it.
func (r *run) settle(ctx context.Context) (last time.Time, err error) {
	return r.waiting().Settle(ctx, r.Cluster, quiet, func() (int, bool) {
		c := r.world.calls()
		return c.reads + c.writes, c.open > 0 || r.world.busy()
	})
}
