package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/record"
)

// Recorder runs OCCM on groups; 30 Workers without.
type Recorder record.Recorder

// quiet is longer than OCCM's first pause between two looks at a load balancer (1 s) that it waits for.
const quiet = 1500 * time.Millisecond

// phasePatience is how long a phase may take on the simulator, realPatience on a real cloud.
const (
	phasePatience = 3 * time.Minute
	realPatience  = 20 * time.Minute
)

// session is one group in a place.
type session = record.Session[*snapshot.State]

// open makes the group's world in a new simulator. The caller must End the session.
func (r *Recorder) open(ctx context.Context, g *script.Group, changes *play.Changes) (*session, error) {
	sim, err := play.Simulator(g.World)
	if err != nil {
		return nil, err
	}
	changes.Watch(sim, false)
	place, err := play.Make(ctx, g.World, sim, g.Servers())
	if err != nil {
		sim.Close()
		return nil, fmt.Errorf("group %s: %w", g.Name, err)
	}
	s, err := r.enter(ctx, g, place, func() (all, open int) { return play.Calls(sim.Requests()) })
	if err != nil {
		sim.Close()
		return nil, err
	}
	s.Close = sim.Close
	return s, nil
}

// enter prepares a group's place.
func (r *Recorder) enter(ctx context.Context, g *script.Group, place *play.Place, calls func() (all, open int)) (*session, error) {
	p := play.New(g, place, r.Plane.Client)
	conf, err := p.Conf()
	if err != nil {
		return nil, err
	}
	s := &session{Player: p.Player, Name: g.Name, Digest: script.Digest(g), Read: p.Read, Patience: phasePatience, Conf: conf,
		Observer: &differential.Observer{Client: p.Client, Quiet: quiet, Busy: place.Cloud.Busy, Calls: calls},
		Options: differential.Options{Cloud: "openstack", Controllers: []string{"service-lb-controller"}, Workers: cmp.Or(r.Workers, 30),
			Args: []string{"--cluster-name=" + g.Cluster()}, Env: r.Env},
	}
	if err := p.Prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("group %s: %w", g.Name, err), s.End(ctx))
	}
	return s, nil
}

// Record plays a group with OCCM, from scratch.
func (r *Recorder) Record(ctx context.Context, g *script.Group) (_ *recording.Recording, err error) {
	s, err := r.open(ctx, g, &play.Changes{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.End(context.WithoutCancel(ctx))) }()
	return record.Record(ctx, (*record.Recorder)(r), s)
}

// RecordAt plays a group with OCCM in a place that stands: a project of a real cloud. calls is how many calls
// have changed that cloud, and how many it has not answered. What the group leaves in the cloud stays there.
func (r *Recorder) RecordAt(ctx context.Context, g *script.Group, place *play.Place, calls func() (all, open int)) (_ *recording.Recording, err error) {
	s, err := r.enter(ctx, g, place, calls)
	if err != nil {
		return nil, err
	}
	s.Patience = realPatience
	defer func() { err = errors.Join(err, s.End(context.WithoutCancel(ctx))) }()
	return record.Record(ctx, (*record.Recorder)(r), s)
}

// Back plays the group with ours, a binary, and starts OCCM on what it left.
func (r *Recorder) Back(ctx context.Context, g *script.Group, ours string) (_ []recording.Back, err error) {
	var made play.Changes
	s, err := r.open(ctx, g, &made)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.End(context.WithoutCancel(ctx))) }()
	return record.Back(ctx, (*record.Recorder)(r), s, ours, g.Backs(), func(map[string]*snapshot.State) record.Did {
		made.Forget()
		return func(ctx context.Context) (map[string][]string, error) {
			_, err := s.Read(ctx, nil, nil) // gives new objects symbols
			return made.By(s.Symbols, g.Names()), err
		}
	})
}
