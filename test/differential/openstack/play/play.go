package play

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/player"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Player does what the users of a group do. The manager runs beside it.
type Player struct {
	*player.Player
	Group *script.Group
	Place *Place
}

// New makes one.
func New(g *script.Group, place *Place, client kubernetes.Interface) *Player {
	p := &Player{Group: g, Place: place}
	p.Player = &player.Player{Group: g, Cloud: p, Symbols: place.Symbols, Client: client}
	return p
}

// Prepare makes the namespaces, Nodes and what is given in the cloud.
func (p *Player) Prepare(ctx context.Context) error {
	if err := p.Namespaces(ctx); err != nil {
		return err
	}
	for _, s := range p.Group.Scenarios {
		if s.Given == nil {
			continue
		}
		if err := p.Place.Cloud.Restore(ctx, p.Place.Symbols, s.Given); err != nil {
			return fmt.Errorf("scenario %s: what is given: %w", s.Name, err)
		}
	}
	for i := range p.Group.Nodes {
		if err := p.join(ctx, i, &p.Group.Nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// join makes a Node as cloud-node-controller has left it.
func (p *Player) join(ctx context.Context, i int, n *script.Node) error {
	name := fmt.Sprintf("node%d", i)
	id := p.Place.Symbols.Value(name + ".id")
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: n.Labels}, Spec: corev1.NodeSpec{ProviderID: "openstack:///" + id}}
	out.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	for _, list := range []struct {
		typ       corev1.NodeAddressType
		addresses []string
	}{{corev1.NodeInternalIP, n.Internal}, {corev1.NodeExternalIP, n.External}} {
		for _, a := range list.addresses {
			a, err := p.Place.Symbols.Expand(a)
			if err != nil {
				return fmt.Errorf("address of Node %s: %w", name, err)
			}
			out.Status.Addresses = append(out.Status.Addresses, corev1.NodeAddress{Type: list.typ, Address: a})
		}
	}
	_, err := p.Client.CoreV1().Nodes().Create(ctx, out, metav1.CreateOptions{})
	return err
}

// Begin has nothing to do: scenarios are about Services.
func (p *Player) Begin(context.Context) error { return nil }

// Take has nothing to do, as Begin.
func (p *Player) Take(context.Context, int) error { return nil }

// End has nothing to do, as Begin.
func (p *Player) End(context.Context) error { return nil }

// Join makes the Node that comes late.
func (p *Player) Join(ctx context.Context) error {
	return p.join(ctx, len(p.Group.Nodes), p.Group.Joins)
}

// Leave deletes the Node that goes.
func (p *Player) Leave(ctx context.Context) error {
	return p.Client.CoreV1().Nodes().Delete(ctx, fmt.Sprintf("node%d", p.Group.Leaves), metav1.DeleteOptions{})
}

// Made gives what the API server has chosen for a Service symbols.
func (p *Player) Made(s *corev1.Service) {
	p.Symbols.Set("uid:"+s.Namespace+"/"+s.Name, string(s.UID))
	legacy := "a" + symbol.Stripped(string(s.UID))
	p.Symbols.Set("legacy:"+s.Namespace+"/"+s.Name, legacy[:32])
}

// Serves says that OCCM works on every Service.
func (p *Player) Serves(*corev1.Service) bool { return true }

// Read returns the state of each scenario.
func (p *Player) Read(ctx context.Context, before, now differential.Mark) (map[string]*snapshot.State, error) {
	out, err := p.Place.Cloud.Read(ctx, p.Place.Symbols, p.Group.Names())
	if err != nil {
		return nil, err
	}
	return out, snapshot.ReadServices(ctx, p.Client, p.Place.Symbols, out, before, now)
}

// Conf is the cloud.conf of the group in its place.
func (p *Player) Conf() (string, error) {
	rest, err := p.Place.Symbols.Expand(p.Group.Conf)
	return p.Place.Global + "\n" + rest + "\n", err
}
