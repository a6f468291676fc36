package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isthmus-cloud/isthmus/hack/rig"
)

// scenario is a row of the table. They follow one another: each begins where the one before has ended.
type scenario struct {
	// title is the row's, about what the size is.
	title func(size) string
	// fresh begins anew, with nothing in the cloud and the cluster.
	fresh bool
	// services says that it is about Services.
	services bool
	// prepare is done before the clock runs; may be nil.
	prepare func(context.Context, *run) error
	// act makes something happen.
	act func(context.Context, *run) error
	// done says whether the contender is done with it, and how far it is. Where it is nil, the contender is
	// done when it has nothing left to do.
	done func(context.Context, *run) (bool, string)
}

// noLimit is a limit of requests that nobody reaches.
const noLimit = "--kube-api-qps=1000000"

func scenarios() []scenario {
	unlimited := initialization(noLimit, "--kube-api-burst=1000000")
	unlimited.title = func(s size) string { return fmt.Sprintf("%d Nodes initialized, `%s`", s.nodes, noLimit) }
	return []scenario{initialization(), creation(), joining(), leaving(), restart(), deletion(), unlimited}
}

// initialization starts a manager with flags beside those of all.
func initialization(args ...string) scenario {
	return scenario{
		title:   func(s size) string { return fmt.Sprintf("%d Nodes initialized", s.nodes) },
		fresh:   true,
		prepare: func(ctx context.Context, r *run) error { return r.arrive(ctx, r.size.nodes) },
		act:     func(_ context.Context, r *run) error { return r.startManager(args...) },
		done: func(_ context.Context, r *run) (bool, string) {
			n := r.Initialized()
			return n == len(r.machines), fmt.Sprintf("%d of %d Nodes", n, len(r.machines))
		},
	}
}

// arrive makes n machines and their Nodes.
func (r *run) arrive(ctx context.Context, n int) error {
	made, err := r.world.join(n)
	if err != nil {
		return err
	}
	r.machines = append(r.machines, made...)
	var nodes []rig.Machine
	for _, m := range made {
		nodes = append(nodes, rig.Machine{Name: m.name, UUID: m.uuid})
	}
	return r.Register(ctx, nodes)
}

func creation() scenario {
	return scenario{
		title:    func(s size) string { return fmt.Sprintf("%d Services × 2 ports created at once", s.services) },
		services: true,
		act:      func(ctx context.Context, r *run) error { return r.Publish(ctx, 0, r.size.services) },
		done: func(_ context.Context, r *run) (bool, string) {
			n := r.Published()
			if n > 0 && r.first.IsZero() {
				r.first = time.Now()
			}
			return n == r.size.services, fmt.Sprintf("%d of %d Services", n, r.size.services)
		},
	}
}

func joining() scenario {
	return scenario{
		title: func(size) string { return "a Node joins: initialized, and a member everywhere" },
		act:   func(ctx context.Context, r *run) error { return r.arrive(ctx, 1) },
		done: func(_ context.Context, r *run) (bool, string) {
			in, pools := r.world.behind(r.machines[len(r.machines)-1])
			return in == pools && r.Initialized() == len(r.machines), fmt.Sprintf("in %d of %d pools", in, pools)
		},
	}
}

func leaving() scenario {
	return scenario{
		title: func(size) string { return "a Node leaves: deleted, and no member anywhere" },
		act: func(ctx context.Context, r *run) error {
			last := r.machines[len(r.machines)-1]
			if err := r.world.leave(last); err != nil {
				return err
			}
			return r.Unready(ctx, last.name)
		},
		done: func(_ context.Context, r *run) (bool, string) {
			in, pools := r.world.behind(r.machines[len(r.machines)-1])
			if gone := len(r.Nodes()) == len(r.machines)-1; in > 0 || !gone {
				return false, fmt.Sprintf("in %d of %d pools", in, pools)
			}
			r.machines = r.machines[:len(r.machines)-1]
			return true, ""
		},
	}
}

func restart() scenario {
	var before string
	return scenario{
		title: func(size) string { return "restart, nothing has changed: until the last call" },
		prepare: func(ctx context.Context, r *run) error {
			before = r.Leader(ctx)
			return nil
		},
		act: func(ctx context.Context, r *run) error {
			r.stopManager()
			if err := r.startManager(); err != nil {
				return err
			}
			// Until it leads it is quiet, however much there is to do.
			return r.until(ctx, func() (bool, string) {
				now := r.Leader(ctx)
				return now != "" && now != before, "waiting for the lease"
			})
		},
	}
}

func deletion() scenario {
	return scenario{
		title:    func(s size) string { return fmt.Sprintf("deletion of all %d Services, nothing left", s.services) },
		services: true,
		act:      func(ctx context.Context, r *run) error { return r.Hide(ctx) },
		done: func(_ context.Context, r *run) (bool, string) {
			n, left := len(r.Balanced()), r.world.left()
			return n == 0 && left == 0, fmt.Sprintf("%d Services and %d objects in the cloud left", n, left)
		},
	}
}

// result is a cell of the table.
type result struct {
	// time is 0 where nothing is done.
	time   time.Duration
	cloud  calls
	writes int
	// first is when the first Service had its address, of rows that give any.
	first time.Duration
	// cpu is what the manager has used, where it goes on.
	cpu time.Duration
}

// measure plays a scenario.
func (s scenario) measure(ctx context.Context, r *run) (result, error) {
	if s.prepare != nil {
		if err := s.prepare(ctx, r); err != nil {
			return result{}, err
		}
	}
	cloud := r.world.calls()
	writes, err := r.Wrote()
	if err != nil {
		return result{}, err
	}
	begin := time.Now()
	r.first = time.Time{}
	if err := s.act(ctx, r); err != nil {
		return result{}, err
	}
	end := begin
	if s.done != nil {
		if err := r.until(ctx, func() (bool, string) { return s.done(ctx, r) }); err != nil {
			return result{}, err
		}
		end = time.Now()
	}
	last, err := r.settle(ctx)
	if err != nil {
		return result{}, err
	}
	if s.done == nil {
		end = last
	}
	after, err := r.Wrote()
	first := time.Duration(0)
	if !r.first.IsZero() {
		first = r.first.Sub(begin)
	}
	return result{first: first, time: end.Sub(begin), cloud: r.world.calls().minus(cloud), writes: after - writes}, err
}
