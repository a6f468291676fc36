package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	ossim "github.com/isthmus-cloud/isthmus/test/cloudsim/openstack"
	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/play"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
)

// Recorder runs OCCM on groups.
type Recorder struct {
	// Binary is OCCM's path, Version what it says of itself.
	Binary, Version string
	Plane           *controlplane.ControlPlane
	// Logs is a folder for what OCCM prints, none without.
	Logs string
	// Workers is how many Services it works on at a time, 30 without; Env are further variables of its environment.
	Workers int
	Env     []string
}

// quiet is longer than OCCM's first pause between two looks at a load balancer (1 s) that it waits for.
const quiet = 1500 * time.Millisecond

// phasePatience is how long a phase may take on the simulator, realPatience on a real cloud; nothing waits for it to pass.
const (
	phasePatience = 3 * time.Minute
	realPatience  = 20 * time.Minute
)

// session is one group in a new simulator, or in a real cloud.
type session struct {
	*play.Player
	sim      *ossim.Sim // nil in a real cloud
	dir      string
	observer *differential.Observer
	patience time.Duration // for a phase
}

// open makes the group's world. The caller must close the session.
func (r *Recorder) open(ctx context.Context, g *script.Group) (*session, error) {
	sim, err := play.Simulator(g.World)
	if err != nil {
		return nil, err
	}
	s := &session{sim: sim, patience: phasePatience}
	place, err := play.Make(ctx, g.World, sim, g.Servers())
	if err == nil {
		err = r.enter(ctx, s, g, place, func() (all, open int) { return play.Calls(sim.Requests()) })
	}
	if err != nil {
		sim.Close()
		return nil, fmt.Errorf("group %s: %w", g.Name, err)
	}
	return s, nil
}

// enter prepares a group's place.
func (r *Recorder) enter(ctx context.Context, s *session, g *script.Group, place *play.Place, calls func() (all, open int)) (err error) {
	s.Player = &play.Player{Group: g, Place: place, Client: r.Plane.Client}
	s.observer = &differential.Observer{Client: s.Client, Quiet: quiet, Busy: place.Cloud.Busy, Calls: calls}
	if s.dir, err = os.MkdirTemp("", "record-occm-"); err != nil {
		return err
	}
	if err := s.Prepare(ctx); err != nil {
		return errors.Join(err, s.Clean(ctx), os.RemoveAll(s.dir))
	}
	return nil
}

func (s *session) close(ctx context.Context) error {
	if s.sim != nil {
		s.sim.Close()
	}
	return errors.Join(s.Clean(ctx), os.RemoveAll(s.dir))
}

// Record plays a group with OCCM, from scratch.
func (r *Recorder) Record(ctx context.Context, g *script.Group) (_ *recording.Recording, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	return r.record(ctx, s)
}

// RecordAt plays a group with OCCM in a place that stands: a project of a real cloud. calls is how many calls
// have changed that cloud, and how many it has not answered. What the group leaves in the cloud stays there.
func (r *Recorder) RecordAt(ctx context.Context, g *script.Group, place *play.Place, calls func() (all, open int)) (_ *recording.Recording, err error) {
	s := &session{patience: realPatience}
	if err := r.enter(ctx, s, g, place, calls); err != nil {
		return nil, fmt.Errorf("group %s: %w", g.Name, err)
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	return r.record(ctx, s)
}

func (r *Recorder) record(ctx context.Context, s *session) (*recording.Recording, error) {
	g := s.Group
	m, err := r.start(ctx, s.Player, s.dir, r.Binary)
	if err != nil {
		return nil, err
	}
	out := &recording.Recording{Manager: r.Version, Group: g.Name, Digest: g.Digest()}
	err = s.play(ctx, m, out)
	if r.Logs != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(r.Logs, g.Name+".log"), []byte(m.Log()), 0o600))
	}
	if err := errors.Join(err, m.Stop()); err != nil {
		return nil, fmt.Errorf("group %s: %w", g.Name, err)
	}
	return out, nil
}

func (s *session) play(ctx context.Context, m *differential.Manager, out *recording.Recording) error {
	o := s.observer
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	for i, phase := range s.Group.Phases() {
		before, err := o.Mark(ctx)
		if err != nil {
			return err
		}
		if o.Failures = 2; strings.HasPrefix(phase, "node") || phase == "delete" {
			o.Failures = 1 // those that failed before may wait long for their next attempt
		}
		services, err := s.Phase(ctx, i)
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		if err := s.settled(ctx, before, services); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		now, err := o.Mark(ctx)
		if err != nil {
			return err
		}
		states, err := s.Read(ctx, before, now)
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		out.Add(states, s.Names())
	}
	return nil
}

func (s *session) settled(ctx context.Context, before differential.Mark, services []types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return s.observer.Settled(ctx, before, services)
}

// start starts the service controller of a binary with the group's cloud.conf.
func (r *Recorder) start(ctx context.Context, p *play.Player, dir, binary string) (*differential.Manager, error) {
	text, err := p.Conf()
	if err != nil {
		return nil, err
	}
	conf, kubeconfig := filepath.Join(dir, "cloud.conf"), filepath.Join(dir, "kubeconfig")
	if err := errors.Join(os.WriteFile(conf, []byte(text), 0o600), controlplane.WriteKubeconfig(kubeconfig, r.Plane.Config)); err != nil {
		return nil, err
	}
	return differential.Start(ctx, differential.Options{
		Binary: binary, Kubeconfig: kubeconfig, CloudConf: conf, Cloud: "openstack", Controllers: []string{"service-lb-controller"}, Workers: cmp.Or(r.Workers, 30),
		Args: []string{"--cluster-name=" + p.Group.Cluster()}, Env: r.Env,
	})
}
