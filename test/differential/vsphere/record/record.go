package record

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/record"
	"github.com/isthmus-cloud/isthmus/test/differential/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/play"
	vsphererecording "github.com/isthmus-cloud/isthmus/test/differential/vsphere/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/snapshot"
)

// Recorder runs the existing manager on groups.
type Recorder record.Recorder

// quiet is how long nothing may happen in the end: it looks at Nodes each second or, where there are many, as fast as it can, and waits
// for seconds before it tries again.
const (
	quiet         = 10 * time.Second
	phasePatience = 3 * time.Minute
)

// session is one group in new simulators.
type session struct {
	*record.Session[snapshot.State]
	player *play.Player
}

// open makes the group's vCenters. The caller must close the session.
func (r *Recorder) open(ctx context.Context, g *script.Group) (*session, error) {
	place, err := play.Make(ctx, &g.World)
	if err != nil {
		return nil, err
	}
	p := play.New(g, place, r.Plane.Client)
	conf, err := p.Conf()
	s := &session{player: p, Session: &record.Session[snapshot.State]{
		Player: p.Player, Name: g.Name, Digest: script.Digest(g), Observer: &differential.Observer{Client: p.Client, Quiet: quiet, Look: p.Look, Calls: calls(place)},
		Read: p.Read, Patience: phasePatience, Conf: conf,
		Options: differential.Options{Cloud: "vsphere", Controllers: g.Controllers, Args: g.Args, Env: append([]string{"ENABLE_ALPHA_DUAL_STACK=true"}, r.Env...)},
	}}
	if err == nil {
		err = p.Prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("group %s: %w", g.Name, err), s.end(ctx))
	}
	return s, nil
}

// calls counts what has changed a vCenter; that managers always ask something is nothing to wait for.
func calls(place *play.Place) func() (all, open int) {
	return func() (int, int) { return len(place.Changes()), 0 }
}

func (s *session) end(ctx context.Context) error {
	return errors.Join(s.player.Clean(ctx), s.player.Place.Close())
}

// Record plays a group with the existing manager.
func (r *Recorder) Record(ctx context.Context, g *script.Group) (_ *vsphererecording.Recording, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.end(context.WithoutCancel(ctx))) }()
	out, err := record.Record(ctx, (*record.Recorder)(r), s.Session)
	if changes := s.player.Place.Changes(); len(changes) > 0 && err == nil {
		err = fmt.Errorf("group %s: the manager has changed a vCenter, which is not recorded: %q", g.Name, changes)
	}
	return out, err
}

// Back plays the group with ours, a binary, and starts the existing manager on what it left.
func (r *Recorder) Back(ctx context.Context, g *script.Group, ours string) (_ []recording.Back, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.end(context.WithoutCancel(ctx))) }()
	return record.Back(ctx, (*record.Recorder)(r), s.Session, ours, g.Backs(), s.watch)
}

// watch notes the calls that the existing manager makes from now on, and what becomes different.
func (s *session) watch(then map[string]snapshot.State) record.Did {
	made := s.player.Place.Changes()
	return func(ctx context.Context) (map[string][]string, error) {
		now, err := s.Read(ctx, nil, nil)
		if err != nil {
			return nil, err
		}
		did := map[string][]string{}
		for _, call := range s.player.Place.Changes() {
			if !slices.Contains(made, call) {
				did[""] = append(did[""], call)
			}
		}
		for _, name := range s.Group.Names() {
			difference.Compare(then[name], now[name], func(path, was, is string) {
				did[name] = append(did[name], fmt.Sprintf("%s: was %s, is %s", path, was, is))
			})
		}
		return did, nil
	}
}
