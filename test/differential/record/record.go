package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isthmus-cloud/isthmus/test/controlplane"
	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/player"
	"github.com/isthmus-cloud/isthmus/test/differential/recording"
)

// Recorder runs the existing manager on groups.
type Recorder struct {
	// Binary is its path, Version what is said of it.
	Binary, Version string
	Plane           *controlplane.ControlPlane
	// Logs is a folder for what it prints, none without.
	Logs string
	// Workers is how many Services it works on at a time, as many as is usual with its cloud without; Env are further variables of its
	// environment.
	Workers int
	Env     []string
}

// Session is a group in a cloud, prepared to be played. Its methods may be called only one after the other.
type Session[S State] struct {
	*player.Player
	// Name is the group's, Digest that of what it is.
	Name, Digest string
	// Observer sees what the manager does.
	Observer *differential.Observer
	// Read returns the scenarios' states.
	Read func(ctx context.Context, before, now differential.Mark) (map[string]S, error)
	// Patience is how long a phase may take; nothing waits for it to pass.
	Patience time.Duration
	// Conf is the cloud.conf; Options are those of both managers beside Binary and files.
	Conf    string
	Options differential.Options
	// Close ends the cloud; may be nil.
	Close func()
}

// State is what is recorded of a scenario.
type State interface {
	recording.State
	// Digest tells one state from another, but for what events tell of Services.
	Digest() (string, error)
}

// Record plays a group with the existing manager, from scratch.
func Record[S State](ctx context.Context, r *Recorder, s *Session[S]) (*recording.Recording[S], error) {
	out := &recording.Recording[S]{Manager: r.Version, Group: s.Name, Digest: s.Digest}
	err := s.with(ctx, r, r.Binary, s.Name, func(ctx context.Context) error {
		for i, phase := range s.Group.Phases() {
			if err := s.phase(ctx, i, out); err != nil {
				return fmt.Errorf("%s: %w", phase, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", s.Name, err)
	}
	return out, nil
}

// phase goes through a phase and notes the states at its end.
func (s *Session[S]) phase(ctx context.Context, number int, out *recording.Recording[S]) error {
	o, phase := s.Observer, s.Group.Phases()[number]
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
	within, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	if err := o.Settled(within, before, services); err != nil {
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

// with does something beside a running manager, and stops that. When the manager ends by itself the context does, too.
func (s *Session[S]) with(ctx context.Context, r *Recorder, binary, log string, do func(context.Context) error) error {
	dir, err := os.MkdirTemp("", "record-")
	if err != nil {
		return err
	}
	o := s.Options
	o.Binary, o.CloudConf, o.Kubeconfig = binary, filepath.Join(dir, "cloud.conf"), filepath.Join(dir, "kubeconfig")
	err = errors.Join(os.WriteFile(o.CloudConf, []byte(s.Conf), 0o600), controlplane.WriteKubeconfig(o.Kubeconfig, r.Plane.Config))
	if err == nil {
		err = beside(ctx, o, do, func(printed string) error {
			if r.Logs == "" {
				return nil
			}
			return os.WriteFile(filepath.Join(r.Logs, log+".log"), []byte(printed), 0o600)
		})
	}
	return errors.Join(err, os.RemoveAll(dir))
}

func beside(ctx context.Context, o differential.Options, do func(context.Context) error, log func(printed string) error) error {
	m, err := differential.Start(ctx, o)
	if err != nil {
		return err
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.Ended():
			cancel()
		case <-within.Done():
		}
	}()
	err = do(within)
	return errors.Join(err, log(m.Log()), m.Stop())
}

// End ends the session.
func (s *Session[S]) End(ctx context.Context) error {
	if s.Close != nil {
		s.Close()
	}
	return s.Clean(ctx)
}
