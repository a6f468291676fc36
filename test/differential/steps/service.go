package steps

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// Service is a Service of type LoadBalancer.
type Service struct {
	// Name is "a" without.
	Name string
	// Annotations may have symbols in their values.
	Annotations map[string]string
	// Ports are TCP 80 without.
	Ports []corev1.ServicePort
	// Patch is a JSON merge patch of the Service that the other fields describe.
	Patch string
	// Later Services are made by a Step.
	Later bool
}

// Step is a change of one Service.
type Step struct {
	// Service is its name, "a" without.
	Service string
	// Patch is a JSON merge patch; symbols stand for identifiers.
	Patch string
	// Create makes a Service that is Later, Delete deletes it.
	Create, Delete bool
}

// ServiceName is its name, "a" without.
func (s *Service) ServiceName() string {
	if s.Name == "" {
		return "a"
	}
	return s.Name
}

// ServiceName is the name of the Service that it changes.
func (s *Step) ServiceName() string {
	if s.Service == "" {
		return "a"
	}
	return s.Service
}

// FirstNodePort is where the node ports of the groups' Services begin; they are fixed so that
// recordings have them as they are.
const FirstNodePort = 30000

// Object makes the Service as it is to be created; number tells the scenario's Services from
// all others of the group.
func (s *Service) Object(namespace string, number int, symbols *symbol.Symbols) (*corev1.Service, error) {
	out := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.ServiceName(), Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: slices.Clone(s.Ports)},
	}
	for k, v := range s.Annotations {
		v, err := symbols.Expand(v)
		if err != nil {
			return nil, fmt.Errorf("scenario %s: annotation %s: %w", namespace, k, err)
		}
		out.Annotations[k] = v
	}
	if len(s.Ports) == 0 {
		out.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	}
	for i := range out.Spec.Ports {
		p := &out.Spec.Ports[i]
		if p.NodePort == 0 {
			p.NodePort = int32(FirstNodePort + 8*number + i)
		}
		if p.Name == "" {
			p.Name = fmt.Sprintf("p%d", i)
		}
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if s.Patch == "" {
		return out, nil
	}
	return out, merge(out, s.Patch, number, symbols)
}

// merge applies a JSON merge patch; {health} in it is a node port for health checks.
func merge(out *corev1.Service, patch string, number int, symbols *symbol.Symbols) error {
	text, err := ExpandPatch(patch, number, symbols)
	if err != nil {
		return fmt.Errorf("Service %s/%s: %w", out.Namespace, out.Name, err)
	}
	before, err := json.Marshal(out)
	if err != nil {
		return err
	}
	after, err := mergePatch(before, []byte(text))
	if err != nil {
		return fmt.Errorf("Service %s/%s: patch %s: %w", out.Namespace, out.Name, text, err)
	}
	fresh := corev1.Service{}
	if err := json.Unmarshal(after, &fresh); err != nil {
		return fmt.Errorf("Service %s/%s: patch %s: %w", out.Namespace, out.Name, text, err)
	}
	*out = fresh
	return nil
}
