package play

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/player"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Player does what the users of a group do. The manager runs beside it.
type Player struct {
	*player.Player
	Group *script.Group
	Place *Place

	nodes     snapshot.Nodes
	instances snapshot.Instances
	routes    snapshot.Routes
	names     map[string][]string // of Nodes, by scenario
	groups    map[string]string   // Services, as tags name them, by the names of their target groups
}

// New makes one.
func New(g *script.Group, place *Place, client kubernetes.Interface) *Player {
	p := &Player{Group: g, Place: place, nodes: snapshot.Nodes{}, instances: snapshot.Instances{}, routes: snapshot.Routes{},
		names: map[string][]string{}, groups: map[string]string{}}
	p.Player = &player.Player{Group: g, Cloud: p, Symbols: place.Symbols, Client: client}
	return p
}

// Prepare makes the namespaces, and the group's Nodes.
func (p *Player) Prepare(ctx context.Context) error {
	for _, s := range p.Group.Scenarios {
		for _, r := range s.Given {
			p.Place.Cloud.EC2.AddRoute(script.MainTable, r)
			p.routes[r.Destination] = s.Name
		}
	}
	if err := p.Namespaces(ctx); err != nil {
		return err
	}
	for i := range p.Group.Nodes {
		if err := p.join(ctx, "", &p.Group.Nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// Begin makes the scenarios' Nodes.
func (p *Player) Begin(ctx context.Context) error {
	for _, s := range p.Group.Scenarios {
		for i := range s.Nodes {
			if err := p.join(ctx, s.Name, &s.Nodes[i]); err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// Take takes the steps with Nodes.
func (p *Player) Take(ctx context.Context, number int) error {
	for _, s := range p.Group.Scenarios {
		if number < len(s.Steps) && s.Steps[number].Node != nil {
			if err := p.nodeStep(ctx, &s, s.Steps[number].Node); err != nil {
				return fmt.Errorf("scenario %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// End deletes the scenarios' Nodes.
func (p *Player) End(ctx context.Context) (err error) {
	for name, scenario := range p.nodes {
		if scenario != "" {
			err = errors.Join(err, ignoreNotFound(p.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})))
		}
	}
	return err
}

// Join makes the group's Node that comes late.
func (p *Player) Join(ctx context.Context) error { return p.join(ctx, "", p.Group.Joins) }

// Leave deletes the Node that goes.
func (p *Player) Leave(ctx context.Context) error {
	return p.Client.CoreV1().Nodes().Delete(ctx, p.names[""][p.Group.Leaves], metav1.DeleteOptions{})
}

// Made gives what follows from a Service's UID symbols: the name of its load balancer, and the end of the name that a security group of a
// network load balancer has.
func (p *Player) Made(s *corev1.Service) {
	key := s.Namespace + "/" + s.Name
	p.Symbols.Set("lb:"+key, ("a" + symbol.Stripped(string(s.UID)))[:32])
	sum := sha256.Sum256([]byte(script.ClusterName + s.Name + s.Namespace + string(s.UID)))
	p.Symbols.Set("nlb:"+key, hex.EncodeToString(sum[:])[:10])
}

// Serves says that it is no Service of a type that is another controller's.
func (p *Player) Serves(s *corev1.Service) bool {
	return !slices.Contains([]string{"nlb-ip", "external"}, s.Annotations["service.beta.kubernetes.io/aws-load-balancer-type"])
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Read returns the state of each scenario.
func (p *Player) Read(ctx context.Context, before, now differential.Mark) (map[string]snapshot.State, error) {
	out, err := p.Place.Cloud.Read(p.Place.Symbols, p.Group.Names(), snapshot.Owners{Instances: p.instances, Routes: p.routes})
	if err != nil {
		return nil, err
	}
	groups, err := p.Place.Cloud.Network.TargetGroups(nil, nil, "")
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		p.groups[g.Name] = g.Tags["kubernetes.io/service-name"]
	}
	if err := snapshot.ReadNodes(ctx, p.Client, out, p.nodes); err != nil {
		return nil, err
	}
	return out, snapshot.ReadServices(ctx, p.Client, p.Place.Symbols, out, before, now)
}

// Look is a text that changes whenever a Node does.
func (p *Player) Look(ctx context.Context) (string, error) {
	list, err := p.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list Nodes: %w", err)
	}
	var seen []string
	for _, n := range list.Items {
		seen = append(seen, n.Name+snapshot.Compact(snapshot.NodeOf(&n))) // not its version: a route controller that fails writes for ever
	}
	return strings.Join(seen, " "), nil
}
