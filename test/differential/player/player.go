package player

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential/steps"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Group is a steps.Group of any cloud.
type Group interface {
	Names() []string
	Phases() []string
	Acts() []steps.Act
}

// Cloud is what a cloud does beside: for its Nodes, and what its manager is like.
type Cloud interface {
	// Begin makes the Nodes of scenarios, and End deletes them; Take takes those of the steps with a number that are not about Services.
	Begin(ctx context.Context) error
	Take(ctx context.Context, number int) error
	End(ctx context.Context) error
	// Join makes the group's Node that comes late, Leave deletes the one that goes.
	Join(ctx context.Context) error
	Leave(ctx context.Context) error
	// Made gives what the API server has chosen for a Service symbols.
	Made(s *corev1.Service)
	// Serves says whether a manager works on a Service.
	Serves(s *corev1.Service) bool
}

// Player plays a group.
type Player struct {
	Group   Group
	Cloud   Cloud
	Symbols *symbol.Symbols
	Client  kubernetes.Interface
}

// Namespaces makes those of the scenarios that have Services.
func (p *Player) Namespaces(ctx context.Context) error {
	list, err := p.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	there := map[string]bool{}
	for _, ns := range list.Items {
		there[ns.Name] = true
	}
	for _, a := range p.Group.Acts() {
		if there[a.Scenario] {
			continue
		}
		there[a.Scenario] = true
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.Scenario}}
		if _, err := p.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("namespace %s: %w", a.Scenario, err)
		}
	}
	return nil
}

// Phase does what users do in a phase of the group (see steps.Group.Phases). It returns the Services that a manager then has to work on.
func (p *Player) Phase(ctx context.Context, number int) ([]types.NamespacedName, error) {
	switch name := p.Group.Phases()[number]; {
	case number == 0:
		if err := p.Cloud.Begin(ctx); err != nil {
			return nil, err
		}
		return p.each(ctx, p.begin)
	case name == "node joins":
		return p.reached(ctx, p.Cloud.Join(ctx))
	case name == "node leaves":
		return p.reached(ctx, p.Cloud.Leave(ctx))
	case name == "delete":
		return p.deleteAll(ctx)
	}
	if err := p.Cloud.Take(ctx, number-1); err != nil {
		return nil, err
	}
	return p.each(ctx, func(ctx context.Context, a *steps.Act) ([]types.NamespacedName, error) {
		if number > len(a.Steps) || a.Steps[number-1] == nil {
			return nil, nil
		}
		return p.step(ctx, a, a.Steps[number-1])
	})
}

func (p *Player) each(ctx context.Context, do func(context.Context, *steps.Act) ([]types.NamespacedName, error)) (out []types.NamespacedName, _ error) {
	for _, a := range p.Group.Acts() {
		keys, err := do(ctx, &a)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: %w", a.Scenario, err)
		}
		out = append(out, keys...)
	}
	return out, nil
}

func (p *Player) begin(ctx context.Context, a *steps.Act) ([]types.NamespacedName, error) {
	if a.Later {
		return nil, nil
	}
	return p.create(ctx, a)
}

func (p *Player) create(ctx context.Context, a *steps.Act) ([]types.NamespacedName, error) {
	object, err := a.Begin(p.Symbols)
	if err != nil {
		return nil, err
	}
	made, err := p.Create(ctx, object)
	if err != nil {
		return nil, err
	}
	return p.Served(made), nil
}

// Create makes a Service. What is chosen for it gets symbols.
func (p *Player) Create(ctx context.Context, s *corev1.Service) (*corev1.Service, error) {
	made, err := p.Client.CoreV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
	if err == nil {
		p.Cloud.Made(made)
	}
	return made, err
}

// Served is the Service where a manager works on it.
func (p *Player) Served(s *corev1.Service) []types.NamespacedName {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil || !p.Cloud.Serves(s) {
		return nil
	}
	return []types.NamespacedName{{Namespace: s.Namespace, Name: s.Name}}
}

func (p *Player) step(ctx context.Context, a *steps.Act, step *steps.Step) ([]types.NamespacedName, error) {
	services := p.Client.CoreV1().Services(a.Scenario)
	if step.Create {
		return p.create(ctx, a)
	}
	before, err := services.Get(ctx, a.ServiceName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if step.Delete {
		return p.deleteOne(ctx, before)
	}
	text, err := steps.ExpandPatch(step.Patch, a.Number, p.Symbols)
	if err != nil {
		return nil, err
	}
	after, err := services.Patch(ctx, a.ServiceName(), types.MergePatchType, []byte(text), metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", text, err)
	}
	if after.ResourceVersion == before.ResourceVersion || !p.Cloud.Serves(after) {
		return nil, nil
	}
	if out := p.Served(after); len(out) > 0 {
		return out, nil
	}
	return p.Served(before), nil
}

func (p *Player) reached(ctx context.Context, err error) ([]types.NamespacedName, error) {
	if err != nil {
		return nil, err
	}
	return p.Reached(ctx)
}

// Reached are the Services that have an address: a change of the Nodes reaches them.
func (p *Player) Reached(ctx context.Context) (out []types.NamespacedName, _ error) {
	list, err := p.services(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if len(s.Status.LoadBalancer.Ingress) > 0 {
			out = append(out, p.Served(&s)...)
		}
	}
	return out, nil
}

// services are those of the scenarios.
func (p *Player) services(ctx context.Context) ([]corev1.Service, error) {
	list, err := p.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := p.Group.Names()
	return slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return !slices.Contains(names, s.Namespace) }), nil
}

func (p *Player) deleteAll(ctx context.Context) (out []types.NamespacedName, err error) {
	list, err := p.services(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		key, e := p.deleteOne(ctx, &s)
		out, err = append(out, key...), errors.Join(err, e)
	}
	return out, errors.Join(err, p.Cloud.End(ctx))
}

// deleteOne deletes a Service; where a manager has put its finalizer it is to end that.
func (p *Player) deleteOne(ctx context.Context, s *corev1.Service) ([]types.NamespacedName, error) {
	err := p.Client.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
	if err != nil || len(s.Finalizers) == 0 {
		return nil, ignoreNotFound(err)
	}
	return p.Served(s), nil
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
		if len(s.Finalizers) > 0 {
			_, err := core.Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			errs = append(errs, ignoreNotFound(err))
		}
		errs = append(errs, ignoreNotFound(core.Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})))
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
