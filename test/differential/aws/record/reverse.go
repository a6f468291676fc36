package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
)

// oursQuiet is longer than ours waits for more changes of Nodes (1 s).
const oursQuiet = 4 * time.Second

// Back plays the group with ours, a binary, and starts the existing manager on what it left.
func (r *Recorder) Back(ctx context.Context, g *script.Group, ours string) (_ *recording.Back, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	out := &recording.Back{Manager: r.Version, Group: g.Name, Digest: g.Digest()}
	next := 0
	for _, at := range g.Backs() {
		m, err := r.start(ctx, s, ours)
		if err != nil {
			return nil, err
		}
		for ; next <= at; next++ {
			err = errors.Join(err, s.oursThrough(ctx, next))
		}
		if r.Logs != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(r.Logs, fmt.Sprintf("%s-ours-%d.log", g.Name, at)), []byte(m.Log()), 0o600))
		}
		if err := errors.Join(err, m.Stop()); err != nil {
			return nil, fmt.Errorf("group %s: ours: %w", g.Name, err)
		}
		b, err := r.back(ctx, s, at)
		if err != nil {
			return nil, fmt.Errorf("group %s: the existing manager on what ours left: %w", g.Name, err)
		}
		out.Phases = append(out.Phases, *b)
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
	usual := s.observer.Quiet
	s.observer.Quiet, s.observer.Failures = max(usual, oursQuiet), 1
	err = s.settled(ctx, before, services)
	s.observer.Quiet = usual
	return err
}

// back starts the existing manager.
func (r *Recorder) back(ctx context.Context, s *session, phase int) (*recording.Taken, error) {
	before, err := s.observer.Mark(ctx)
	if err != nil {
		return nil, err
	}
	then, err := s.Read(ctx, before, before)
	if err != nil {
		return nil, err
	}
	out := &recording.Taken{Phase: phase, Ours: map[string]string{}, Did: map[string][]string{}}
	for _, name := range s.Group.Names() {
		if out.Ours[name], err = then[name].Digest(); err != nil {
			return nil, err
		}
	}
	services, err := s.Served(ctx)
	if err != nil {
		return nil, err
	}
	asked := len(s.Place.Sim.Requests())
	m, err := r.start(ctx, s, r.Binary)
	if err != nil {
		return nil, err
	}
	s.observer.Failures = 1
	err = errors.Join(s.settled(ctx, before, services), m.Stop())
	if r.Logs != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(r.Logs, fmt.Sprintf("%s-back-%d.log", s.Group.Name, phase)), []byte(m.Log()), 0o600))
	}
	if err != nil {
		return nil, err
	}
	return out, s.did(ctx, before, asked, then, out)
}

// did notes what the existing manager has done since then.
func (s *session) did(ctx context.Context, before differential.Mark, asked int, then map[string]snapshot.State, out *recording.Taken) error {
	now, err := s.Read(ctx, before, before)
	if err != nil {
		return err
	}
	for name, calls := range s.By(s.Place.Sim.Requests()[asked:], true) {
		out.Did[name] = calls
	}
	for _, name := range s.Group.Names() {
		was, err := then[name].Plain()
		if err != nil {
			return err
		}
		is, err := now[name].Plain()
		if err != nil {
			return err
		}
		difference.Compare(was, is, func(path, was, is string) {
			out.Did[name] = append(out.Did[name], fmt.Sprintf("%s: was %s, is %s", path, was, is))
		})
	}
	for name := range out.Did {
		slices.Sort(out.Did[name])
		out.Did[name] = slices.Compact(out.Did[name])
	}
	return nil
}
