package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
)

// oursQuiet is longer than ours waits for more changes of Nodes (1 s).
const oursQuiet = 4 * time.Second

// Back plays the group with ours, a binary, and starts OCCM on what it left.
func (r *Recorder) Back(ctx context.Context, g *script.Group, ours string) (out []recording.Back, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	var made play.Changes
	made.Watch(s.sim, false)
	next := 0
	for _, at := range g.Backs() {
		m, err := r.start(ctx, s.Player, s.dir, ours)
		if err != nil {
			return nil, err
		}
		for ; next <= at; next++ {
			if err := s.oursThrough(ctx, next); err != nil {
				return nil, errors.Join(err, m.Stop())
			}
		}
		if err := m.Stop(); err != nil {
			return nil, err
		}
		b, err := r.back(ctx, s, at, &made)
		if err != nil {
			return nil, fmt.Errorf("group %s: OCCM on what ours left: %w", g.Name, err)
		}
		out = append(out, *b)
	}
	return out, nil
}

// oursThrough takes a phase with ours.
func (s *session) oursThrough(ctx context.Context, phase int) error {
	before, err := s.observer.Mark(ctx)
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
	s.observer.Quiet, s.observer.Failures = oursQuiet, 1
	if err := s.settled(ctx, before, services); err != nil {
		return err
	}
	_, err = s.Read(ctx, before, before) // gives new objects symbols
	return err
}

// back starts OCCM.
func (r *Recorder) back(ctx context.Context, s *session, phase int, made *play.Changes) (*recording.Back, error) {
	before, err := s.observer.Mark(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.Read(ctx, before, before)
	if err != nil {
		return nil, err
	}
	out := &recording.Back{Phase: phase, Ours: map[string]string{}, Calls: map[string][]string{}}
	for _, name := range s.Names() {
		if out.Ours[name], err = states[name].Digest(); err != nil {
			return nil, err
		}
	}
	services, err := s.All(ctx, nil)
	if err != nil {
		return nil, err
	}
	made.Forget()
	m, err := r.start(ctx, s.Player, s.dir, r.Binary)
	if err != nil {
		return nil, err
	}
	s.observer.Quiet, s.observer.Failures = quiet, 1
	err = errors.Join(s.settled(ctx, before, services), m.Stop())
	if _, e := s.Read(ctx, before, before); e != nil {
		err = errors.Join(err, e)
	}
	for name, calls := range made.By(s.Place.Symbols, s.Names()) {
		slices.Sort(calls)
		out.Calls[name] = slices.Compact(calls)
	}
	if r.Logs != "" {
		err = errors.Join(err, os.WriteFile(fmt.Sprintf("%s/%s-back-%d.log", r.Logs, s.Group.Name, phase), []byte(m.Log()), 0o600))
	}
	return out, err
}
