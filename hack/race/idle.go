package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

// idleLead is how long nothing is counted after a manager has begun: its load balancers are compared with the cloud for the first
// time from then on, at default flags, and so none is left out.
const idleLead = 15 * time.Minute

// idleHour has all contenders do nothing side by side, each in a cluster of its own with Nodes and Services, and counts what they do
// meanwhile.
func (o *options) idleHour(ctx context.Context, t *table, dir string, out io.Writer) error {
	runs, results, errs := make([]*run, len(t.contenders)), make([]result, len(t.contenders)), make([]error, len(t.contenders))
	var group sync.WaitGroup
	for i, c := range t.contenders {
		group.Go(func() {
			folder := filepath.Join(dir, fmt.Sprint(i))
			if errs[i] = os.Mkdir(folder, 0o700); errs[i] != nil {
				return
			}
			if runs[i], errs[i] = begin(ctx, c, t.kind, o.delays, o.size, folder); errs[i] == nil {
				results[i], errs[i] = runs[i].idle(ctx, o.idle, out)
			}
		})
	}
	group.Wait()
	title := fmt.Sprintf("an hour with %d Nodes", o.size.nodes)
	if o.size.services > 0 {
		title += fmt.Sprintf(" and %d Services", o.size.services)
	}
	t.rows = []row{{title: title, results: results}}
	for i, r := range runs {
		if r == nil {
			continue
		}
		if errs[i] == nil {
			errs[i] = t.finish(r)
			continue
		}
		errs[i] = fmt.Errorf("%s: %w", r.name, errors.Join(errs[i], r.end()))
	}
	for i := range t.used {
		t.used[i].CPU = results[i].cpu
	}
	return errors.Join(errs...)
}

// idle is what a contender does in an hour, as counted for so long. It runs with its own frequency of Nodes' status.
func (r *run) idle(ctx context.Context, counted time.Duration, out io.Writer) (result, error) {
	for _, s := range []scenario{initialization("--node-status-update-frequency=5m"), creation()} {
		if s.services && r.size.services == 0 {
			continue
		}
		r.progress = rig.NewProgress(out, r.name+": "+s.title(r.size))
		if _, err := s.measure(ctx, r); err != nil {
			return result{}, err
		}
	}
	fmt.Fprintf(out, "%s: idle; it is counted for %s, in %s …\n", r.name, counted, idleLead)
	if err := r.rest(ctx, idleLead); err != nil {
		return result{}, err
	}
	cloud, used := r.world.calls(), r.process.Now()
	writes, err := r.Wrote()
	if err != nil {
		return result{}, err
	}
	if err := r.rest(ctx, counted); err != nil {
		return result{}, err
	}
	got := r.world.calls().minus(cloud)
	after, err := r.Wrote()
	hours := counted.Hours()
	inAnHour := func(n int) int { return int(float64(n)/hours + .5) }
	return result{cloud: calls{reads: inAnHour(got.reads), writes: inAnHour(got.writes), bytes: int64(float64(got.bytes) / hours)}, writes: inAnHour(after - writes),
		cpu: time.Duration(float64(r.process.Now().CPU-used.CPU) / hours)}, err
}

// rest waits, while the process must live.
func (r *run) rest(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	return rig.Wait{Every: time.Second, Process: r.process}.Until(ctx, func() (bool, string) { return !time.Now().Before(end), "it rests" })
}
