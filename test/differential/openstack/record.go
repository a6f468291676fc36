package openstack

import (
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
)

// Recorder runs OCCM on groups.
type Recorder struct {
	// Binary is OCCM's path, Version what it says of itself.
	Binary, Version string
	Plane           *controlplane.ControlPlane
	// Logs is a folder for what OCCM prints, none without.
	Logs string
}

// quiet is longer than OCCM's first pause between two looks at a load balancer (1 s) that it waits for.
const quiet = 1500 * time.Millisecond

// session is one group in a new simulator.
type session struct {
	*Player
	sim      *ossim.Sim
	dir      string
	observer *differential.Observer
}

// open makes the group's world. The caller must close the session.
func (r *Recorder) open(ctx context.Context, g *Group) (*session, error) {
	sim, err := g.World.Simulator()
	if err != nil {
		return nil, err
	}
	s := &session{sim: sim, Player: &Player{Group: g, Client: r.Plane.Client}}
	if s.dir, err = os.MkdirTemp("", "record-occm-"); err == nil {
		s.Place, err = g.World.Make(ctx, sim, g.Servers())
	}
	if err == nil {
		s.observer = &differential.Observer{Client: s.Client, Quiet: quiet, Busy: s.Place.Cloud.Busy, Calls: func() (all, open int) { return calls(sim.Requests()) }}
		err = s.Prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("group %s: %w", g.Name, err), s.close(ctx))
	}
	return s, nil
}

func (s *session) close(ctx context.Context) error {
	s.sim.Close()
	return errors.Join(s.Clean(ctx), os.RemoveAll(s.dir))
}

// Record plays a group with OCCM, from scratch.
func (r *Recorder) Record(ctx context.Context, g *Group) (_ *Recording, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	m, err := r.start(ctx, s.Player, s.dir, r.Binary)
	if err != nil {
		return nil, err
	}
	out := &Recording{Manager: r.Version, Group: g.Name, Digest: g.Digest()}
	err = r.play(ctx, s.Player, s.observer, m, out)
	if r.Logs != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(r.Logs, g.Name+".log"), []byte(m.Log()), 0o600))
	}
	if err := errors.Join(err, m.Stop()); err != nil {
		return nil, fmt.Errorf("group %s: %w", g.Name, err)
	}
	return out, nil
}

func (r *Recorder) play(ctx context.Context, p *Player, o *differential.Observer, m *differential.Manager, out *Recording) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	for i, phase := range p.Group.Phases() {
		before, err := o.Mark(ctx)
		if err != nil {
			return err
		}
		if o.Failures = 2; strings.HasPrefix(phase, "node") {
			o.Failures = 1 // those that failed before may wait long for their next attempt
		}
		services, err := p.Phase(ctx, i)
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		if err := settled(ctx, o, before, services); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		now, err := o.Mark(ctx)
		if err != nil {
			return err
		}
		states, err := p.Read(ctx, before, now)
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		out.Add(states, p.Names())
	}
	return nil
}

func settled(ctx context.Context, o *differential.Observer, before differential.Mark, services []types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return o.Settled(ctx, before, services)
}

// start starts the service controller of a binary with the group's cloud.conf.
func (r *Recorder) start(ctx context.Context, p *Player, dir, binary string) (*differential.Manager, error) {
	text, err := p.Conf()
	if err != nil {
		return nil, err
	}
	conf, kubeconfig := filepath.Join(dir, "cloud.conf"), filepath.Join(dir, "kubeconfig")
	if err := errors.Join(os.WriteFile(conf, []byte(text), 0o600), controlplane.WriteKubeconfig(kubeconfig, r.Plane.Config)); err != nil {
		return nil, err
	}
	return differential.Start(ctx, differential.Options{
		Binary: binary, Kubeconfig: kubeconfig, CloudConf: conf, Cloud: "openstack", Controllers: []string{"service-lb-controller"}, Workers: 30,
		Args: []string{"--cluster-name=" + p.Group.Cluster()},
	})
}
