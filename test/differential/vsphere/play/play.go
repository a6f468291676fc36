package play

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/compare"
	"github.com/isthmus-cloud/isthmus/test/differential/player"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/recording"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/script"
	"github.com/isthmus-cloud/isthmus/test/differential/vsphere/snapshot"
)

// Player does what the users of a group do. The manager runs beside it.
type Player struct {
	*player.Player
	Group *script.Group
	Place *Place

	nodes map[string]*nodes // by scenario
	of    map[string]string // scenarios by the names of their Nodes
	beats int
}

// New makes one.
func New(g *script.Group, place *Place, client kubernetes.Interface) *Player {
	p := &Player{Group: g, Place: place, nodes: map[string]*nodes{}, of: map[string]string{}}
	p.Player = &player.Player{Group: g, Cloud: p, Symbols: place.Symbols, Client: client}
	return p
}

// Conf is the group's vsphere.conf.
func (p *Player) Conf() (string, error) { return p.Symbols.Expand(p.Group.Conf) }

// secret is the name of the Secret with credentials.
const secret = "vcenter"

// Prepare makes the machines of no Node, and the Secret.
func (p *Player) Prepare(ctx context.Context) error {
	for _, s := range p.Group.Scenarios {
		for i := range s.Given {
			if err := p.Place.VCenters[s.Given[i].VCenter].Place(ctx, &s.Given[i].Spec); err != nil {
				return fmt.Errorf("scenario %s: machine %s: %w", s.Name, s.Given[i].Name, err)
			}
		}
	}
	if p.Group.World.Secret == nil {
		return nil
	}
	data := map[string]string{}
	for key, value := range p.Group.World.Secret {
		key, err := p.Symbols.Expand(key)
		if err != nil {
			return err
		}
		if data[key], err = p.Symbols.Expand(value); err != nil {
			return err
		}
	}
	_, err := p.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, StringData: data}, metav1.CreateOptions{})
	return err
}

// Clean removes Nodes and the Secret, with nobody's help.
func (p *Player) Clean(ctx context.Context) error {
	err := p.Client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, secret, metav1.DeleteOptions{})
	return errors.Join(ignoreNotFound(err), p.Player.Clean(ctx))
}

// Begin makes the scenarios' Nodes.
func (p *Player) Begin(ctx context.Context) error {
	return p.begin(ctx, func(_ string, n *corev1.Node) error { return p.create(ctx, n) })
}

func (p *Player) begin(ctx context.Context, made func(scenario string, n *corev1.Node) error) error {
	for _, s := range p.Group.Scenarios {
		for i := range s.Nodes {
			n, err := p.join(ctx, s.Name, &s.Nodes[i])
			if err == nil {
				err = made(s.Name, n)
			}
			if err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

func (p *Player) create(ctx context.Context, n *corev1.Node) error {
	_, err := p.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// Take takes the steps with a number. Kubelets then report.
func (p *Player) Take(ctx context.Context, number int) error {
	for _, s := range p.Group.Scenarios {
		if number >= len(s.Steps) {
			continue
		}
		if err := p.step(ctx, s.Name, &s.Steps[number]); err != nil {
			return fmt.Errorf("scenario %s: %w", s.Name, err)
		}
	}
	return p.report(ctx)
}

func (p *Player) step(ctx context.Context, scenario string, step *script.Step) error {
	if err := p.machineStep(ctx, scenario, step); err != nil {
		return err
	}
	if step.Joins != nil {
		n, err := p.join(ctx, scenario, step.Joins)
		if err != nil {
			return err
		}
		return p.create(ctx, n)
	}
	if step.Delete {
		return p.Client.CoreV1().Nodes().Delete(ctx, p.nodes[scenario].names[step.Node], metav1.DeleteOptions{})
	}
	return nil
}

// report has kubelets that are there report, and others be missed.
func (p *Player) report(ctx context.Context) error {
	p.beats++
	for _, s := range p.nodes {
		for i, name := range s.names {
			status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Played","message":"%d"}]}}`, s.ready[i], p.beats)
			_, err := p.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
			if ignoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// End deletes the scenarios' Nodes.
func (p *Player) End(ctx context.Context) (err error) {
	for name := range p.of {
		err = errors.Join(err, ignoreNotFound(p.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})))
	}
	return err
}

// Join implements player.Cloud: no group has such a Node.
func (p *Player) Join(context.Context) error { return nil }

// Leave implements player.Cloud.
func (p *Player) Leave(context.Context) error { return nil }

// Made implements player.Cloud.
func (p *Player) Made(*corev1.Service) {}

// Serves implements player.Cloud: there are no load balancers.
func (p *Player) Serves(*corev1.Service) bool { return false }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Read returns the state of each scenario.
func (p *Player) Read(ctx context.Context, _, _ differential.Mark) (map[string]snapshot.State, error) {
	return snapshot.Read(ctx, p.Client, p.Group.Names(), p.of)
}

// Look is a text that changes whenever a Node does.
func (p *Player) Look(ctx context.Context) (string, error) {
	states, err := p.Read(ctx, nil, nil)
	return compare.Compact(states), err
}

// Restore makes machines and Nodes what was recorded after a phase, without any manager; Prepare is done by then.
func (p *Player) Restore(ctx context.Context, recorded *recording.Recording, phase int) error {
	made := map[string]*corev1.Node{}
	note := func(_ string, n *corev1.Node) error {
		made[n.Name] = n
		return nil
	}
	if err := p.begin(ctx, note); err != nil {
		return err
	}
	for number := range phase {
		for _, s := range p.Group.Scenarios {
			if number >= len(s.Steps) {
				continue
			}
			if err := p.machineStep(ctx, s.Name, &s.Steps[number]); err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
			if s.Steps[number].Joins == nil {
				continue
			}
			n, err := p.join(ctx, s.Name, s.Steps[number].Joins)
			if err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
			made[n.Name] = n
		}
	}
	for name, scenario := range p.of {
		was, n, s := recorded.State(scenario, phase)[name], made[name], p.nodes[scenario]
		if was == nil {
			continue
		}
		was.Write(n)
		n.Status.Conditions = []corev1.NodeCondition{condition(s.ready[strings.Count(strings.Join(s.names, " ")+" ", name+" ")-1])}
		if err := p.create(ctx, n); err != nil {
			return fmt.Errorf("scenario %s: %w", scenario, err)
		}
	}
	return nil
}
