package play

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/differential/openstack/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Restore makes cloud and API what was recorded of the scenarios that had changed in a phase, without any
// manager. It returns the Services that a manager then works on.
func (p *Player) Restore(ctx context.Context, recorded *recording.Recording, phase int) ([]types.NamespacedName, error) {
	if err := p.restoreNodes(ctx, phase); err != nil {
		return nil, err
	}
	var out []types.NamespacedName
	for i := range p.Group.Scenarios {
		s := &p.Group.Scenarios[i]
		if !recorded.Changed(s.Name, phase) {
			continue
		}
		state, err := recorded.State(s.Name, phase).Clone()
		if err != nil {
			return nil, err
		}
		groups := state.SecurityGroups
		state.SecurityGroups = nil
		addPorts(s, state)
		if err := p.Place.Cloud.Restore(ctx, p.Place.Symbols, state); err != nil {
			return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		p.knowGone(s, state)
		state.SecurityGroups = groups
		keys, err := p.restoreServices(ctx, s, state, phase)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
		}
		out = append(out, keys...)
	}
	return out, nil
}

// Services are the Services as their users and the manager had left them after a phase, without what an API server
// adds. What is restored of the cloud has given the symbols their values.
func (p *Player) Services(recorded *recording.Recording, phase int) ([]*corev1.Service, error) {
	var out []*corev1.Service
	for _, a := range p.Group.Acts() {
		published, is := recorded.State(a.Scenario, phase).Services[a.ServiceName()]
		object, deleted, err := a.After(phase, p.Symbols)
		if err != nil {
			return nil, err
		}
		if deleted || !is {
			continue
		}
		if err := published.Write(object, p.Symbols); err != nil {
			return nil, err
		}
		out = append(out, object)
	}
	return out, nil
}

// addPorts adds the scenario's given ports that a state lacks because a load balancer has them by then.
func addPorts(s *script.Scenario, state *snapshot.State) {
	if s.Given == nil {
		return
	}
	for _, p := range s.Given.Ports {
		if !slices.ContainsFunc(state.Ports, func(o snapshot.Object) bool { return snapshot.Text(o, "name") == snapshot.Text(p, "name") }) {
			state.Ports = append(state.Ports, p)
		}
	}
}

// knowGone gives symbols to what is gone by then and still spoken of: identifiers and addresses of nothing.
func (p *Player) knowGone(s *script.Scenario, state *snapshot.State) {
	for i, symbol := range symbol.In(snapshot.Compact(s.Services) + snapshot.Compact(s.Steps) + snapshot.Compact(state.Services)) {
		if p.Place.Symbols.Value(symbol) != "" {
			continue
		}
		switch kind, _, _ := strings.Cut(symbol, ":"); kind {
		case "lb", "port":
			p.Place.Symbols.Set(symbol, fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		case "fip", "vip":
			p.Place.Symbols.Set(symbol, fmt.Sprintf("198.51.100.%d", i%250+1))
		}
	}
}

// restoreNodes makes the Nodes that there are after a phase.
func (p *Player) restoreNodes(ctx context.Context, phase int) error {
	if err := p.Namespaces(ctx); err != nil {
		return err
	}
	name := p.Group.Phases()[phase]
	for i := range p.Group.Nodes {
		if name == "node leaves" && i == p.Group.Leaves {
			continue
		}
		if err := p.join(ctx, i, &p.Group.Nodes[i]); err != nil {
			return err
		}
	}
	if name == "node joins" || name == "node leaves" && p.Group.Leaves < len(p.Group.Nodes) {
		return p.Join(ctx)
	}
	return nil
}

func (p *Player) restoreServices(ctx context.Context, s *script.Scenario, state *snapshot.State, phase int) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	for _, a := range p.Group.Acts() {
		if _, is := state.Services[a.ServiceName()]; a.Scenario != s.Name || !is {
			continue
		}
		object, deleted, err := a.After(phase, p.Symbols)
		if err != nil {
			return nil, err
		}
		if deleted {
			delete(state.Services, a.ServiceName())
			continue
		}
		made, err := p.Create(ctx, object)
		if err != nil {
			return nil, err
		}
		out = append(out, p.Served(made)...)
	}
	for _, g := range state.SecurityGroups {
		if err := p.Place.Cloud.RestoreGroup(ctx, p.Place.Symbols, g); err != nil {
			return nil, err
		}
	}
	return out, snapshot.RestoreServices(ctx, p.Client, p.Place.Symbols, s.Name, state)
}
