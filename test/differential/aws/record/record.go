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

	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/play"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
)

// Recorder runs the existing manager on groups.
type Recorder struct {
	// Binary is its path, Version what is said of it.
	Binary, Version string
	Plane           *controlplane.ControlPlane
	// Logs is a folder for what it prints, none without.
	Logs string
}

// quiet is how long nothing may happen in the end: a Service's second attempt comes 5 s after the first, and is waited for by
// its events; Nodes are looked at each second.
const (
	quiet         = 1500 * time.Millisecond
	quietNodes    = 6 * time.Second
	phasePatience = 3 * time.Minute
)

// session is one group in a new simulator.
type session struct {
	*play.Player
	dir      string
	observer *differential.Observer
}

// open makes the group's cloud. The caller must close the session.
func (r *Recorder) open(ctx context.Context, g *script.Group) (*session, error) {
	place, err := play.Make()
	if err != nil {
		return nil, err
	}
	s := &session{Player: &play.Player{Group: g, Place: place, Client: r.Plane.Client}}
	s.observer = &differential.Observer{Client: s.Client, Quiet: quiet, Look: s.Look,
		Calls: func() (int, int) { return play.Calls(place.Sim.Requests()) }}
	if !slices.Contains(g.Controllers, "service-lb-controller") {
		s.observer.Quiet = quietNodes
	}
	if s.dir, err = os.MkdirTemp("", "record-aws-"); err == nil {
		err = s.Prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("group %s: %w", g.Name, err), s.close(ctx))
	}
	return s, nil
}

func (s *session) close(ctx context.Context) error {
	s.Place.Sim.Close()
	return errors.Join(s.Clean(ctx), os.RemoveAll(s.dir))
}

// Record plays a group with the existing manager.
func (r *Recorder) Record(ctx context.Context, g *script.Group) (_ *recording.Recording, err error) {
	s, err := r.open(ctx, g)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	m, err := r.start(ctx, s, r.Binary)
	if err != nil {
		return nil, err
	}
	out := &recording.Recording{Manager: r.Version, Group: g.Name, Digest: g.Digest()}
	err = s.play(ctx, m, out)
	if r.Logs != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(r.Logs, g.Name+".log"), []byte(m.Log()), 0o600), s.logCalls(r.Logs))
	}
	if err := errors.Join(err, m.Stop()); err != nil {
		return nil, fmt.Errorf("group %s: %w", g.Name, err)
	}
	return out, nil
}

// logCalls writes what the manager has asked the simulator.
func (s *session) logCalls(dir string) error {
	var b strings.Builder
	for _, r := range s.Place.Sim.Requests() {
		fmt.Fprintln(&b, r.Service, r.Action, r.Status)
	}
	return os.WriteFile(filepath.Join(dir, s.Group.Name+".calls"), []byte(b.String()), 0o600)
}

func (s *session) play(ctx context.Context, m *differential.Manager, out *recording.Recording) error {
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
		if err := s.phase(ctx, i, out); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
	}
	return nil
}

// phase goes through a phase and notes the states at its end.
func (s *session) phase(ctx context.Context, number int, out *recording.Recording) error {
	o, phase := s.observer, s.Group.Phases()[number]
	before, err := o.Mark(ctx)
	if err != nil {
		return err
	}
	if o.Failures = 2; strings.HasPrefix(phase, "node") || phase == "delete" {
		o.Failures = 1 // those that failed before may wait long for their next attempt
	}
	services, err := s.Phase(ctx, number)
	if err != nil {
		return err
	}
	if err := s.settled(ctx, before, services); err != nil {
		return err
	}
	now, err := o.Mark(ctx)
	if err != nil {
		return err
	}
	states, err := s.Read(ctx, before, now)
	if err != nil {
		return err
	}
	out.Add(states, s.Group.Names())
	return nil
}

func (s *session) settled(ctx context.Context, before differential.Mark, services []types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, phasePatience)
	defer cancel()
	return s.observer.Settled(ctx, before, services)
}

// start starts a manager, with one worker for Services: it then does one thing after the other.
func (r *Recorder) start(ctx context.Context, s *session, binary string) (*differential.Manager, error) {
	conf, kubeconfig := filepath.Join(s.dir, "cloud.conf"), filepath.Join(s.dir, "kubeconfig")
	if err := errors.Join(os.WriteFile(conf, []byte(s.Group.Conf), 0o600), controlplane.WriteKubeconfig(kubeconfig, r.Plane.Config)); err != nil {
		return nil, err
	}
	return differential.Start(ctx, differential.Options{
		Binary: binary, Kubeconfig: kubeconfig, CloudConf: conf, Cloud: "aws", Controllers: s.Group.Controllers, Workers: 1,
		Args: append([]string{"--cluster-name=" + script.ClusterName}, s.Group.Args...), Env: s.Place.Env,
	})
}
