package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/difference"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/record"
)

// Recorder runs the existing manager on groups; with one of Workers without, so that it does one thing after the other.
type Recorder record.Recorder

// quiet is how long nothing may happen in the end: a Service's second attempt comes 5 s after the first, and is waited for by
// its events; Nodes are looked at each second.
const (
	quiet         = 1500 * time.Millisecond
	quietNodes    = 6 * time.Second
	phasePatience = 3 * time.Minute
)

// session is one group in a new simulator.
type session struct {
	*record.Session[snapshot.State]
	player *play.Player
}

// open makes the group's cloud. The caller must End the session.
func (r *Recorder) open(ctx context.Context, g *script.Group) (*session, error) {
	place, err := play.Make(g.World)
	if err != nil {
		return nil, err
	}
	p := play.New(g, place, r.Plane.Client)
	o := &differential.Observer{Client: p.Client, Quiet: quiet, Look: p.Look, Calls: func() (int, int) { return play.Calls(place.Sim.Requests()) }}
	if !slices.Contains(g.Controllers, "service-lb-controller") {
		o.Quiet = quietNodes
	}
	s := &session{player: p, Session: &record.Session[snapshot.State]{
		Player: p.Player, Name: g.Name, Digest: script.Digest(g), Observer: o, Read: p.Read, Patience: phasePatience, Conf: g.Conf, Close: place.Sim.Close,
		Options: differential.Options{Cloud: "aws", Controllers: g.Controllers, Workers: max(r.Workers, 1),
			Args: append([]string{"--cluster-name=" + script.ClusterName}, g.Args...), Env: append(place.Env, r.Env...)},
	}}
	if err := p.Prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("group %s: %w", g.Name, err), s.End(ctx))
	}
	return s, nil
}

// Record plays a group with the existing manager.
func (r *Recorder) Record(ctx context.Context, g *script.Group) (_ *recording.Recording, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.End(context.WithoutCancel(ctx))) }()
	out, err := record.Record(ctx, (*record.Recorder)(r), s.Session)
	return out, errors.Join(err, s.logCalls(r.Logs))
}

// logCalls writes what the manager has asked the simulator.
func (s *session) logCalls(dir string) error {
	if dir == "" {
		return nil
	}
	var b strings.Builder
	for _, r := range s.player.Place.Sim.Requests() {
		fmt.Fprintln(&b, r.Service, r.Action, r.Status)
	}
	return os.WriteFile(filepath.Join(dir, s.Name+".calls"), []byte(b.String()), 0o600)
}

// Back plays the group with ours, a binary, and starts the existing manager on what it left.
func (r *Recorder) Back(ctx context.Context, g *script.Group, ours string) (_ *recording.Back, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.End(context.WithoutCancel(ctx))) }()
	backs, err := record.Back(ctx, (*record.Recorder)(r), s.Session, ours, g.Backs(), s.watch)
	out := &recording.Back{Manager: r.Version, Group: g.Name, Digest: s.Digest}
	for _, b := range backs {
		out.Phases = append(out.Phases, recording.Taken{Phase: b.Phase, Ours: b.Ours, Did: b.Calls})
	}
	return out, err
}

// watch notes the calls that the existing manager makes from now on, and what becomes different.
func (s *session) watch(then map[string]snapshot.State) record.Did {
	asked := len(s.player.Place.Sim.Requests())
	return func(ctx context.Context) (map[string][]string, error) {
		before, err := s.Observer.Mark(ctx)
		if err != nil {
			return nil, err
		}
		now, err := s.Read(ctx, before, before)
		if err != nil {
			return nil, err
		}
		did := s.player.By(s.player.Place.Sim.Requests()[asked:], true)
		for _, name := range s.Group.Names() {
			was, err := then[name].Plain()
			if err != nil {
				return nil, err
			}
			is, err := now[name].Plain()
			if err != nil {
				return nil, err
			}
			difference.Compare(was, is, func(path, was, is string) {
				did[name] = append(did[name], fmt.Sprintf("%s: was %s, is %s", path, was, is))
			})
		}
		return did, nil
	}
}
