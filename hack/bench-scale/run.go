package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

// phase is something that a manager had to do, and what it took.
type phase struct {
	name   string
	wall   time.Duration
	calls  calls
	writes int
	cpu    time.Duration
}

// result is a cluster of one size.
type result struct {
	nodes, services int
	phases          []phase
	// plane is the version of the API server.
	plane string
	// rss and peak are the manager's memory at rest and at most, and idle its share of a CPU at rest.
	rss, peak int64
	idle      float64
}

// phase returns the one of that name.
func (r *result) phase(name string) phase {
	for _, p := range r.phases {
		if p.name == name {
			return p
		}
	}
	return phase{}
}

// The phases.
const (
	initialized = "all Nodes initialized"
	cycle       = "one status cycle of all Nodes"
	joined      = "one Node joins, a member everywhere"
	restarted   = "restart, nothing has changed"
)

func published(n int) string { return fmt.Sprintf("up to %d Services", n) }

// stage is a cluster that a manager works for.
type stage struct {
	*rig.Cluster
	settings
	world    *world
	binary   string
	dir      string
	out      io.Writer
	process  *rig.Process
	progress *rig.Progress
	nodes    int
	result   *result
}

// measure lets the manager work for a cluster of n Nodes.
func measure(ctx context.Context, s settings, n int, binary, dir string, out io.Writer) (_ *result, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	st := &stage{settings: s, binary: binary, dir: dir, out: out, result: &result{nodes: n}}
	defer func() { err = errors.Join(err, st.end()) }()
	if st.world, err = newWorld(s); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "cloud.conf"), []byte(st.world.config()), 0o600); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%d Nodes: a new cluster and cloud …\n", n)
	if st.Cluster, err = rig.StartCluster(ctx, rig.OurAccount, dir); err != nil {
		return nil, err
	}
	v, err := st.Client.Discovery().ServerVersion()
	if err != nil {
		return nil, err
	}
	st.result.plane = v.GitVersion
	if err := st.arrive(ctx, n); err != nil {
		return nil, err
	}
	return st.result, st.play(ctx)
}

// play does one phase after the other.
func (s *stage) play(ctx context.Context) error {
	if err := s.do(ctx, initialized, func(context.Context) error { return s.start() }, s.allInitialized); err != nil {
		return err
	}
	for _, n := range s.services {
		before := s.result.services
		s.result.services = n
		err := s.do(ctx, published(n), func(ctx context.Context) error { return s.Publish(ctx, before, n) }, func() (bool, string) {
			have := s.Published()
			return have == n, fmt.Sprintf("%d of %d Services", have, n)
		})
		if err != nil {
			return err
		}
	}
	members := min(s.members, s.nodes) + 1
	if err := s.do(ctx, joined, func(ctx context.Context) error {
		s.members = members
		return s.arrive(ctx, 1)
	}, func() (bool, string) {
		full, pools := s.world.behind(members)
		ok, seen := s.allInitialized()
		return ok && full == pools, fmt.Sprintf("%s, in %d of %d pools", seen, full, pools)
	}); err != nil {
		return err
	}
	if err := s.do(ctx, restarted, func(ctx context.Context) error { return s.restart(ctx) }, nil); err != nil {
		return err
	}
	if err := s.rest(ctx); err != nil {
		return err
	}
	if err := s.restart(ctx, "--node-status-update-frequency="+s.cycle.String()); err != nil {
		return err
	}
	if _, err := s.settle(ctx); err != nil {
		return err
	}
	before, _ := s.world.calls()
	return s.do(ctx, cycle, func(ctx context.Context) error {
		return s.until(ctx, func() (bool, string) {
			now, _ := s.world.calls()
			return now.sum() > before.sum(), "waiting for it"
		})
	}, nil)
}

func (s *stage) allInitialized() (bool, string) {
	n := s.Initialized()
	return n == s.nodes, fmt.Sprintf("%d of %d Nodes", n, s.nodes)
}

// arrive makes n machines and their Nodes.
func (s *stage) arrive(ctx context.Context, n int) error {
	machines, err := s.world.join(n, s.members)
	if err != nil {
		return err
	}
	s.nodes += n
	return s.Register(ctx, machines)
}

// needed are flags without which the manager would not start here: there are no routes, and no port is taken.
func needed() []string { return []string{"--configure-cloud-routes=false", "--secure-port=0"} }

func (s *stage) start(more ...string) (err error) {
	args := append([]string{"--cloud-provider=openstack", "--cloud-config=" + filepath.Join(s.dir, "cloud.conf"), "--kubeconfig=" + filepath.Join(s.dir, "kubeconfig")}, needed()...)
	s.process, err = rig.StartProcess(s.binary, filepath.Join(s.dir, "log"), nil, append(args, more...)...)
	return err
}

// restart ends the manager and starts another one, which leads then.
func (s *stage) restart(ctx context.Context, more ...string) error {
	before := s.Leader(ctx)
	s.stop()
	if err := s.start(more...); err != nil {
		return err
	}
	return s.until(ctx, func() (bool, string) {
		now := s.Leader(ctx)
		return now != "" && now != before, "waiting for the lease"
	})
}

func (s *stage) stop() {
	if s.process == nil {
		return
	}
	s.process.Stop()
	s.result.peak = max(s.result.peak, s.process.Used().Memory)
	s.process = nil
}

func (s *stage) end() error {
	s.stop()
	var err error
	if s.Cluster != nil {
		err = s.End()
	}
	if s.world != nil {
		s.world.sim.Close()
	}
	return err
}

// do measures a phase: act makes something happen, and done says whether the manager is done with it and how far it
// is; where that is nil, it is done when it has nothing left to do.
func (s *stage) do(ctx context.Context, name string, act func(context.Context) error, done func() (bool, string)) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	s.progress = rig.NewProgress(s.out, fmt.Sprintf("%d Nodes: %s", s.result.nodes, name))
	callsBefore, _ := s.world.calls()
	writesBefore, err := s.Wrote()
	if err != nil {
		return err
	}
	used := time.Duration(0)
	if s.process != nil && name != restarted {
		used = s.process.Now().CPU
	}
	begin := time.Now()
	if err := act(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if name == cycle { // which is waited for until it begins
		begin = time.Now()
	}
	var end time.Time
	if done != nil {
		if err := s.until(ctx, done); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		end = time.Now()
	}
	last, err := s.settle(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if end.IsZero() {
		end = last
	}
	callsAfter, _ := s.world.calls()
	writes, err := s.Wrote()
	p := phase{name: name, wall: end.Sub(begin), calls: callsAfter.minus(callsBefore), writes: writes - writesBefore, cpu: s.process.Now().CPU - used}
	s.result.phases = append(s.result.phases, p)
	fmt.Fprintf(s.out, "✓ %d Nodes: %s: %.1f s, %d calls of the cloud, %d writes to the API server, %.1f s of CPU\n",
		s.result.nodes, name, p.wall.Seconds(), p.calls.sum(), p.writes, p.cpu.Seconds())
	return err
}

// rest looks at the manager while it has nothing to do.
func (s *stage) rest(ctx context.Context) error {
	before, begin := s.process.Now(), time.Now()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(s.idle):
	}
	after := s.process.Now()
	s.result.rss, s.result.idle = after.Memory, (after.CPU-before.CPU).Seconds()/time.Since(begin).Seconds()
	fmt.Fprintf(s.out, "✓ %d Nodes, %d Services: %.0f MB at rest, %.1f %% of a CPU\n", s.result.nodes, s.result.services, float64(after.Memory)/1e6, 100*s.result.idle)
	return nil
}

// until waits until done says so; seen is what to show meanwhile.
func (s *stage) until(ctx context.Context, done func() (ok bool, seen string)) error {
	return s.waiting().Until(ctx, done)
}

func (s *stage) waiting() rig.Wait {
	return rig.Wait{Every: 200 * time.Millisecond, Process: s.process, Progress: s.progress}
}

// settle waits until the manager has nothing left to do, and returns when it did the last of it.
func (s *stage) settle(ctx context.Context) (last time.Time, err error) {
	return s.waiting().Settle(ctx, s.Cluster, s.quiet, func() (int, bool) {
		all, open := s.world.calls()
		return all.sum(), open > 0 || s.world.busy()
	})
}
