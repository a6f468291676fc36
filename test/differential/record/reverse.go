package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/differential/recording"
)

// oursQuiet is longer than ours waits for more changes of Nodes (1 s).
const oursQuiet = 4 * time.Second

// Did says what a manager has changed, by scenario.
type Did func(ctx context.Context) (map[string][]string, error)

// Back plays the group with ours, a binary, and starts the existing manager on what it has left after some phases. watch begins to note what
// that then does; it gets what ours has left.
func Back[S State](ctx context.Context, r *Recorder, s *Session[S], ours string, phases []int, watch func(then map[string]S) Did) (out []recording.Back, _ error) {
	next := 0
	for _, at := range phases {
		err := s.with(ctx, r, ours, fmt.Sprintf("%s-ours-%d", s.Name, at), func(ctx context.Context) error {
			for ; next <= at; next++ {
				if err := s.oursThrough(ctx, next); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("group %s: ours: %w", s.Name, err)
		}
		b, err := s.back(ctx, r, at, watch)
		if err != nil {
			return nil, fmt.Errorf("group %s: the existing manager on what ours left: %w", s.Name, err)
		}
		out = append(out, *b)
	}
	return out, nil
}

// oursThrough takes a phase with ours.
func (s *Session[S]) oursThrough(ctx context.Context, phase int) error {
	before, err := s.Observer.Mark(ctx)
	if err != nil {
		return err
	}
	services, err := s.Phase(ctx, phase)
	if err != nil {
		return err
	}
	if phase > 0 {
		services = nil // ours says nothing of what changes nothing
	}
	o := *s.Observer
	o.Quiet, o.Failures = max(o.Quiet, oursQuiet), 1
	within, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	if err := o.Settled(within, before, services); err != nil {
		return err
	}
	_, err = s.Read(ctx, before, before) // gives new objects symbols
	return err
}

// back starts the existing manager.
func (s *Session[S]) back(ctx context.Context, r *Recorder, phase int, watch func(then map[string]S) Did) (*recording.Back, error) {
	before, err := s.Observer.Mark(ctx)
	if err != nil {
		return nil, err
	}
	then, err := s.Read(ctx, before, before)
	if err != nil {
		return nil, err
	}
	out := &recording.Back{Phase: phase, Ours: map[string]string{}, Calls: map[string][]string{}}
	for _, name := range s.Group.Names() {
		if out.Ours[name], err = then[name].Digest(); err != nil {
			return nil, err
		}
	}
	services, err := s.Reached(ctx)
	if err != nil {
		return nil, err
	}
	did := watch(then)
	s.Observer.Failures = 1
	err = s.with(ctx, r, r.Binary, fmt.Sprintf("%s-back-%d", s.Name, phase), func(ctx context.Context) error {
		within, cancel := context.WithTimeout(ctx, s.Patience)
		defer cancel()
		return s.Observer.Settled(within, before, services)
	})
	calls, e := did(ctx)
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	for name, list := range calls {
		slices.Sort(list)
		out.Calls[name] = slices.Compact(list)
	}
	return out, nil
}
