package openstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

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

// Record plays a group with OCCM, from scratch.
func (r *Recorder) Record(ctx context.Context, g *Group) (_ *Recording, err error) {
	sim, err := g.World.Simulator()
	if err != nil {
		return nil, err
	}
	defer sim.Close()
	place, err := g.World.Make(ctx, sim, g.Servers())
	if err != nil {
		return nil, err
	}
	p := &Player{Group: g, Place: place, Client: r.Plane.Client}
	defer func() { err = errors.Join(err, p.Clean(ctx)) }()
	if err := p.Prepare(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "record-occm-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	m, err := r.start(ctx, p, dir)
	if err != nil {
		return nil, err
	}
	out := &Recording{Manager: r.Version, Group: g.Name, Digest: g.Digest()}
	o := &differential.Observer{Client: p.Client, Quiet: quiet, Failures: 2, Busy: place.Cloud.Busy, Calls: func() (all, open int) { return calls(sim.Requests()) }}
	err = r.play(ctx, p, o, m, out)
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

// start starts OCCM's service controller with the group's cloud.conf.
func (r *Recorder) start(ctx context.Context, p *Player, dir string) (*differential.Manager, error) {
	text, err := p.Conf()
	if err != nil {
		return nil, err
	}
	conf, kubeconfig := filepath.Join(dir, "cloud.conf"), filepath.Join(dir, "kubeconfig")
	if err := errors.Join(os.WriteFile(conf, []byte(text), 0o600), controlplane.WriteKubeconfig(kubeconfig, r.Plane.Config)); err != nil {
		return nil, err
	}
	return differential.Start(ctx, differential.Options{
		Binary: r.Binary, Kubeconfig: kubeconfig, CloudConf: conf, Cloud: "openstack", Controllers: []string{"service-lb-controller"}, Workers: 30,
		Args: []string{"--cluster-name=" + p.Group.Cluster()},
	})
}
