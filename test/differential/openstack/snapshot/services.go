package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// lastApplied would repeat a Service in its annotations.
const lastApplied = corev1.LastAppliedConfigAnnotation

// ReadServices adds to states, by scenario, what is published about the scenarios' Services.
// before and now say, by their events, how the last attempts ended.
func ReadServices(ctx context.Context, client kubernetes.Interface, symbols *symbol.Symbols, states map[string]*State, before, now differential.Mark) error {
	services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	events, err := client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	reasons := map[types.NamespacedName][]string{}
	for _, e := range events.Items {
		key, reason := types.NamespacedName{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}, e.Reason
		if e.Type == corev1.EventTypeWarning {
			reason = "!" + reason
		}
		if !slices.Contains(reasons[key], reason) {
			reasons[key] = append(reasons[key], reason)
		}
	}
	for _, s := range services.Items {
		state := states[s.Namespace]
		if state == nil {
			continue
		}
		key := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		p, err := published(&s, symbols)
		if err != nil {
			return err
		}
		p.Events = reasons[key]
		slices.Sort(p.Events)
		p.Failed = now[key].Failed > before[key].Failed && now[key].Done == before[key].Done
		if state.Services == nil {
			state.Services = map[string]Published{}
		}
		state.Services[s.Name] = p
	}
	return nil
}

func published(s *corev1.Service, symbols *symbol.Symbols) (Published, error) {
	p := Published{Finalizers: s.Finalizers}
	for k, v := range s.Annotations {
		if k == lastApplied {
			continue
		}
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[k] = symbols.Fold(v)
	}
	data, err := json.Marshal(s.Status.LoadBalancer.Ingress)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(symbols.Fold(string(data))), &p.Ingress)
}

// RestoreServices writes to the scenario's Services, which exist, what is published about them.
func RestoreServices(ctx context.Context, client kubernetes.Interface, symbols *symbol.Symbols, namespace string, state *State) error {
	for name, p := range state.Services {
		s, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get Service %s/%s: %w", namespace, name, err)
		}
		if err := p.Write(s, symbols); err != nil {
			return err
		}
		status := s.Status
		if s, err = client.CoreV1().Services(namespace).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update Service %s/%s: %w", namespace, name, err)
		}
		s.Status = status
		if _, err := client.CoreV1().Services(namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("status of Service %s/%s: %w", namespace, name, err)
		}
	}
	return nil
}

// Write writes it to the Service.
func (p *Published) Write(s *corev1.Service, symbols *symbol.Symbols) (err error) {
	s.Annotations, s.Finalizers = map[string]string{}, p.Finalizers
	for k, v := range p.Annotations {
		if s.Annotations[k], err = symbols.Expand(v); err != nil {
			return err
		}
	}
	data, err := json.Marshal(p.Ingress)
	if err != nil {
		return err
	}
	ingress, err := symbols.Expand(string(data))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(ingress), &s.Status.LoadBalancer.Ingress)
}
