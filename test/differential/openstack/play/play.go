package play

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

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/script"
	"github.com/isthmus-cloud/isthmus/test/differential/openstack/snapshot"
	"github.com/isthmus-cloud/isthmus/test/differential/steps"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Player does what the users of a group do. The manager runs beside it.
type Player struct {
	Group  *script.Group
	Place  *Place
	Client kubernetes.Interface
}

// Names are those of the scenarios.
func (p *Player) Names() []string {
	var out []string
	for _, s := range p.Group.Scenarios {
		out = append(out, s.Name)
	}
	return out
}

// Prepare makes the namespaces, Nodes and what is given in the cloud.
func (p *Player) Prepare(ctx context.Context) error {
	for _, s := range p.Group.Scenarios {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
		if _, err := p.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", s.Name, err)
		}
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

// Phase does what users do in a phase of the group (see Group.Phases). It returns the Services that a
// manager then has to work on.
func (p *Player) Phase(ctx context.Context, number int) ([]types.NamespacedName, error) {
	phases := p.Group.Phases()
	switch name := phases[number]; {
	case number == 0:
		return p.create(ctx)
	case name == "node joins":
		return p.All(ctx, p.join(ctx, len(p.Group.Nodes), p.Group.Joins))
	case name == "node leaves":
		return p.All(ctx, p.Client.CoreV1().Nodes().Delete(ctx, fmt.Sprintf("node%d", p.Group.Leaves), metav1.DeleteOptions{}))
	case name == "delete":
		return p.deleteAll(ctx)
	}
	return p.steps(ctx, number-1)
}

// Create makes the Services. Their UIDs get symbols.
func (p *Player) create(ctx context.Context) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	err := p.Group.Each(func(s *script.Scenario, service *script.Service, number int) error {
		if service.Later {
			return nil
		}
		key, err := p.createOne(ctx, s, service, number)
		out = append(out, key...)
		return err
	})
	return out, err
}

func (p *Player) createOne(ctx context.Context, s *script.Scenario, service *script.Service, number int) ([]types.NamespacedName, error) {
	object, err := service.Object(s.Name, number, p.Place.Symbols)
	if err != nil {
		return nil, err
	}
	made, err := p.Client.CoreV1().Services(s.Name).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	p.Place.name(made)
	return served(made), nil
}

func served(s *corev1.Service) []types.NamespacedName {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || !differential.Expects(s) {
		return nil
	}
	return []types.NamespacedName{{Namespace: s.Namespace, Name: s.Name}}
}

// name gives what the API server has chosen for a Service symbols.
func (p *Place) name(s *corev1.Service) {
	p.Symbols.Set("uid:"+s.Namespace+"/"+s.Name, string(s.UID))
	legacy := "a" + symbol.Stripped(string(s.UID))
	p.Symbols.Set("legacy:"+s.Namespace+"/"+s.Name, legacy[:32])
}

// steps takes the steps with this number of all scenarios.
func (p *Player) steps(ctx context.Context, number int) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	err := p.Group.Each(func(s *script.Scenario, service *script.Service, n int) error {
		if number >= len(s.Steps) || s.Steps[number].ServiceName() != service.ServiceName() {
			return nil
		}
		key, err := p.step(ctx, s, service, &s.Steps[number], n)
		out = append(out, key...)
		return err
	})
	return out, err
}

func (p *Player) step(ctx context.Context, s *script.Scenario, service *script.Service, step *script.Step, number int) ([]types.NamespacedName, error) {
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
	if out := served(after); len(out) > 0 {
		return out, nil
	}
	return served(before), nil
}

// All are the Services whose last attempt did not fail: those that a change of the Nodes reaches.
func (p *Player) All(ctx context.Context, err error) ([]types.NamespacedName, error) {
	if err != nil {
		return nil, err
	}
	list, err := p.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []types.NamespacedName
	for _, s := range list.Items {
		if len(s.Status.LoadBalancer.Ingress) > 0 && slices.Contains(p.Names(), s.Namespace) {
			out = append(out, served(&s)...)
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
		if slices.Contains(p.Names(), s.Namespace) {
			key, e := p.deleteOne(ctx, &s)
			out, err = append(out, key...), errors.Join(err, e)
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
	return served(s), nil
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
func (p *Player) Read(ctx context.Context, before, now differential.Mark) (map[string]*snapshot.State, error) {
	out, err := p.Place.Cloud.Read(ctx, p.Place.Symbols, p.Names())
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
