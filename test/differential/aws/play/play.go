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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/script"
	"github.com/isthmus-cloud/isthmus/test/differential/aws/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Player does what the users of a group do. The manager runs beside it.
type Player struct {
	Group  *script.Group
	Place  *Place
	Client kubernetes.Interface

	nodes     snapshot.Nodes
	instances snapshot.Instances
	routes    snapshot.Routes
	names     map[string][]string // of Nodes, by scenario
	groups    map[string]string   // Services, as tags name them, by the names of their target groups
}

// Prepare makes the namespaces, and the group's Nodes.
func (p *Player) Prepare(ctx context.Context) error {
	p.nodes, p.instances = snapshot.Nodes{}, snapshot.Instances{}
	p.names, p.routes, p.groups = map[string][]string{}, snapshot.Routes{}, map[string]string{}
	for _, s := range p.Group.Scenarios {
		for _, r := range s.Given {
			p.Place.Cloud.EC2.AddRoute(script.MainTable, r)
			p.routes[r.Destination] = s.Name
		}
		if len(s.Services) == 0 {
			continue
		}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
		if _, err := p.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", s.Name, err)
		}
	}
	for i := range p.Group.Nodes {
		if err := p.join(ctx, "", &p.Group.Nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// Phase does what users do in a phase of the group (see Group.Phases). It returns the Services that a manager then has to work on.
func (p *Player) Phase(ctx context.Context, number int) ([]types.NamespacedName, error) {
	switch name := p.Group.Phases()[number]; {
	case number == 0:
		return p.create(ctx)
	case name == "node joins":
		return p.reached(ctx, p.join(ctx, "", p.Group.Joins))
	case name == "node leaves":
		return p.reached(ctx, p.Client.CoreV1().Nodes().Delete(ctx, p.names[""][p.Group.Leaves], metav1.DeleteOptions{}))
	case name == "delete":
		return p.deleteAll(ctx)
	}
	return p.steps(ctx, number-1)
}

// create makes the scenarios' Nodes and Services.
func (p *Player) create(ctx context.Context) (out []types.NamespacedName, err error) {
	for _, s := range p.Group.Scenarios {
		for i := range s.Nodes {
			if err := p.join(ctx, s.Name, &s.Nodes[i]); err != nil {
				return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
			}
		}
	}
	err = p.Group.Each(func(s *script.Scenario, service *steps.Service, number int) error {
		if service.Later {
			return nil
		}
		key, err := p.createOne(ctx, s, service, number)
		out = append(out, key...)
		return err
	})
	return out, err
}

func (p *Player) createOne(ctx context.Context, s *script.Scenario, service *steps.Service, number int) ([]types.NamespacedName, error) {
	object, err := service.Object(s.Name, number, p.Place.Symbols)
	if err != nil {
		return nil, err
	}
	made, err := p.Client.CoreV1().Services(s.Name).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	p.Place.name(made)
	return worked(made), nil
}

// name gives what follows from a Service's UID symbols: the name of its load balancer, and the end of the name that a security
// group of a network load balancer has.
func (p *Place) name(s *corev1.Service) {
	key := s.Namespace + "/" + s.Name
	p.Symbols.Set("lb:"+key, ("a" + symbol.Stripped(string(s.UID)))[:32])
	sum := sha256.Sum256([]byte(script.ClusterName + s.Name + s.Namespace + string(s.UID)))
	p.Symbols.Set("nlb:"+key, hex.EncodeToString(sum[:])[:10])
}

// worked is the Service if a manager works on it, and says so: some types of load balancers are another controller's.
func worked(s *corev1.Service) []types.NamespacedName {
	if slices.Contains([]string{"nlb-ip", "external"}, s.Annotations["service.beta.kubernetes.io/aws-load-balancer-type"]) {
		return nil
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || !differential.Expects(s) {
		return nil
	}
	return []types.NamespacedName{{Namespace: s.Namespace, Name: s.Name}}
}

// steps takes the steps with this number of all scenarios.
func (p *Player) steps(ctx context.Context, number int) (out []types.NamespacedName, err error) {
	for _, s := range p.Group.Scenarios {
		if number < len(s.Steps) && s.Steps[number].Node != nil {
			if err := p.nodeStep(ctx, &s, s.Steps[number].Node); err != nil {
				return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
			}
		}
	}
	err = p.Group.Each(func(s *script.Scenario, service *steps.Service, n int) error {
		if number >= len(s.Steps) || s.Steps[number].Service == nil || s.Steps[number].Service.ServiceName() != service.ServiceName() {
			return nil
		}
		key, err := p.step(ctx, s, service, s.Steps[number].Service, n)
		out = append(out, key...)
		return err
	})
	return out, err
}

func (p *Player) step(ctx context.Context, s *script.Scenario, service *steps.Service, step *steps.Step, number int) ([]types.NamespacedName, error) {
	services := p.Client.CoreV1().Services(s.Name)
	if step.Create {
		return p.createOne(ctx, s, service, number)
	}
	before, err := services.Get(ctx, service.ServiceName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if step.Delete {
		return p.deleteOne(ctx, before)
	}
	text, err := steps.ExpandPatch(step.Patch, number, p.Place.Symbols)
	if err != nil {
		return nil, err
	}
	after, err := services.Patch(ctx, service.ServiceName(), types.MergePatchType, []byte(text), metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", text, err)
	}
	if after.ResourceVersion == before.ResourceVersion {
		return nil, nil
	}
	if out := worked(after); len(out) > 0 {
		return out, nil
	}
	return worked(before), nil
}

// reached are the Services that a change of the Nodes reaches.
func (p *Player) reached(ctx context.Context, err error) ([]types.NamespacedName, error) {
	if err != nil {
		return nil, err
	}
	return p.Served(ctx)
}

// Served are the Services that have an address.
func (p *Player) Served(ctx context.Context) (out []types.NamespacedName, _ error) {
	list, err := p.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		if len(s.Status.LoadBalancer.Ingress) > 0 && slices.Contains(p.Group.Names(), s.Namespace) {
			out = append(out, worked(&s)...)
		}
	}
	return out, nil
}

func (p *Player) deleteAll(ctx context.Context) (out []types.NamespacedName, err error) {
	list, err := p.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range list.Items {
		if slices.Contains(p.Group.Names(), s.Namespace) {
			key, e := p.deleteOne(ctx, &s)
			out, err = append(out, key...), errors.Join(err, e)
		}
	}
	for name, scenario := range p.nodes {
		if scenario != "" {
			err = errors.Join(err, ignoreNotFound(p.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})))
		}
	}
	return out, err
}

// deleteOne deletes a Service; where a manager has put its finalizer it is to end that.
func (p *Player) deleteOne(ctx context.Context, s *corev1.Service) ([]types.NamespacedName, error) {
	err := p.Client.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
	if err != nil || len(s.Finalizers) == 0 {
		return nil, ignoreNotFound(err)
	}
	return worked(s), nil
}

// Clean removes the Services, Nodes and events, with nobody's help. Namespaces stay.
func (p *Player) Clean(ctx context.Context) error {
	core := p.Client.CoreV1()
	errs := []error{core.Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})}
	list, err := core.Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		if s.Namespace == "default" && s.Name == "kubernetes" {
			continue
		}
		_, err := core.Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		errs = append(errs, ignoreNotFound(err), ignoreNotFound(core.Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})))
	}
	events, err := core.Events("").List(ctx, metav1.ListOptions{})
	errs = append(errs, err)
	cleaned := map[string]bool{}
	for _, e := range events.Items {
		if !cleaned[e.Namespace] {
			cleaned[e.Namespace] = true
			errs = append(errs, core.Events(e.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		}
	}
	return errors.Join(errs...)
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
