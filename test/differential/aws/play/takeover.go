package play

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/test/differential/aws/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
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
		if err := p.join(ctx, "", p.Group.Joins); err != nil {
			return err
		}
	}
	if name != "node leaves" {
		return nil
	}
	return p.Client.CoreV1().Nodes().Delete(ctx, p.names[""][p.Group.Leaves], metav1.DeleteOptions{})
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
	err := p.Group.Each(func(s *script.Scenario, service *steps.Service, number int) error {
		o, is := recorded.State(s.Name, phase)["service"][service.ServiceName()].(snapshot.Object)
		if !is {
			return nil
		}
		object, err := p.after(s, service, number, phase)
		if err != nil {
			return err
		}
		finalizers, _ := o["finalizers"].(snapshot.Object)
		for f := range finalizers {
			object.Finalizers = append(object.Finalizers, f)
		}
		slices.Sort(object.Finalizers)
		made, err := p.Client.CoreV1().Services(s.Name).Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		p.Place.name(made)
		out = append(out, made)
		return nil
	})
	return out, err
}

// after is a Service as its users have it after a phase.
func (p *Player) after(s *script.Scenario, service *steps.Service, number, phase int) (*corev1.Service, error) {
	object, err := service.Object(s.Name, number, p.Place.Symbols)
	if err != nil {
		return nil, err
	}
	for i := range min(phase, len(s.Steps)) {
		step := s.Steps[i].Service
		if step == nil || step.ServiceName() != service.ServiceName() || step.Create || step.Delete {
			continue
		}
		if err := steps.Merge(object, step.Patch, number, p.Place.Symbols); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// publish writes what was published of the Services.
func (p *Player) publish(ctx context.Context, recorded *recording.Recording, phase int, made []*corev1.Service) (out []types.NamespacedName, err error) {
	for _, s := range made {
		o, _ := recorded.State(s.Namespace, phase)["service"][s.Name].(snapshot.Object)
		out = append(out, worked(s)...)
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
