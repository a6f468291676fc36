package play

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
)

// Restore makes cloud and API what was recorded after a phase, without any manager; Prepare is done by then. It returns the
// Services that a manager then works on.
func (p *Player) Restore(ctx context.Context, recorded *recording.Recording, phase int) ([]types.NamespacedName, error) {
	if err := p.Place.Cloud.Know(p.Place.Symbols); err != nil {
		return nil, err
	}
	if err := p.restoreNodes(ctx, recorded, phase); err != nil {
		return nil, err
	}
	if err := p.membership(ctx, phase); err != nil {
		return nil, err
	}
	made, err := p.restoreServices(ctx, recorded, phase)
	if err != nil {
		return nil, err
	}
	for _, name := range p.Group.Names() {
		if err := p.Place.Cloud.Restore(p.Place.Symbols, recorded.State(name, phase)); err != nil {
			return nil, fmt.Errorf("scenario %s: %w", name, err)
		}
	}
	if phase < len(recorded.Shared) {
		if err := p.Place.Cloud.Restore(p.Place.Symbols, recorded.Shared[phase]); err != nil {
			return nil, err
		}
	}
	return p.publish(ctx, recorded, phase, made)
}

// membership lets the Node that comes late be there, and the one gone that leaves.
func (p *Player) membership(ctx context.Context, phase int) error {
	name := p.Group.Phases()[phase]
	if name == "node joins" || name == "node leaves" {
		if err := p.Join(ctx); err != nil {
			return err
		}
	}
	if name != "node leaves" {
		return nil
	}
	return p.Leave(ctx)
}

// restoreNodes makes the scenarios' instances, lets happen to them what has happened by then, and makes those of their Nodes that
// are left, as they are recorded.
func (p *Player) restoreNodes(ctx context.Context, recorded *recording.Recording, phase int) error {
	nodes := map[string][]*corev1.Node{}
	for _, s := range p.Group.Scenarios {
		for i := range s.Nodes {
			nodes[s.Name] = append(nodes[s.Name], p.newNode(s.Name, &s.Nodes[i]))
		}
	}
	for number := range phase { // one after the other, as what is given away then depends on it
		for _, s := range p.Group.Scenarios {
			if number >= len(s.Steps) || s.Steps[number].Node == nil {
				continue
			}
			step := s.Steps[number].Node
			p.Place.instanceStep(&s, step)
			if step.Ready != "" {
				nodes[s.Name][step.Node].Status.Conditions[0].Status = step.Ready
			}
		}
	}
	for scenario, list := range nodes {
		for _, n := range list {
			o, is := recorded.State(scenario, phase)["node"][n.Name].(snapshot.Object)
			if !is {
				continue
			}
			snapshot.WriteNode(n, o)
			if _, err := p.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("scenario %s: %w", scenario, err)
			}
		}
	}
	return nil
}

// restoreServices makes the Services as users have them, with the finalizers that they have.
func (p *Player) restoreServices(ctx context.Context, recorded *recording.Recording, phase int) ([]*corev1.Service, error) {
	var out []*corev1.Service
	for _, a := range p.Group.Acts() {
		o, is := recorded.State(a.Scenario, phase)["service"][a.ServiceName()].(snapshot.Object)
		if !is { // what is left of one that is gone has its names
			p.Made(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: a.Scenario, Name: a.ServiceName(), UID: uuid.NewUUID()}})
			continue
		}
		object, _, err := a.After(phase, p.Symbols) // one that is deleted may be there
		if err != nil {
			return nil, err
		}
		finalizers, _ := o["finalizers"].(snapshot.Object)
		for f := range finalizers {
			object.Finalizers = append(object.Finalizers, f)
		}
		slices.Sort(object.Finalizers)
		made, err := p.Create(ctx, object)
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

// publish writes what was published of the Services.
func (p *Player) publish(ctx context.Context, recorded *recording.Recording, phase int, made []*corev1.Service) (out []types.NamespacedName, err error) {
	for _, s := range made {
		o, _ := recorded.State(s.Namespace, phase)["service"][s.Name].(snapshot.Object)
		out = append(out, p.Served(s)...)
		if o["ingress"] == nil {
			continue
		}
		text, err := p.Place.Symbols.Expand(snapshot.Compact(o["ingress"]))
		if err != nil {
			return nil, fmt.Errorf("service %s/%s: %w", s.Namespace, s.Name, err)
		}
		if err := json.Unmarshal([]byte(text), &s.Status.LoadBalancer.Ingress); err != nil {
			return nil, err
		}
		if _, err := p.Client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
