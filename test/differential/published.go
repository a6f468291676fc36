package differential

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// lastApplied would repeat a Service in its annotations.
const lastApplied = corev1.LastAppliedConfigAnnotation

// Published is what a manager has written about a Service.
type Published struct {
	Annotations map[string]string            `json:"annotations,omitempty"`
	Finalizers  []string                     `json:"finalizers,omitempty"`
	Ingress     []corev1.LoadBalancerIngress `json:"ingress,omitempty"`
	// Failed says that the last attempt has failed.
	Failed bool `json:"failed,omitempty"`
	// Events are the reasons, Warnings with a "!" before them.
	Events []string `json:"events,omitempty"`
}

// ReadServices returns what is published about the Services. before and now say, by their events, how the last attempts ended.
func ReadServices(ctx context.Context, client kubernetes.Interface, symbols *symbol.Symbols, before, now Mark) (map[types.NamespacedName]Published, error) {
	services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	events, err := client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
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
	out := map[types.NamespacedName]Published{}
	for _, s := range services.Items {
		key := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		p, err := published(&s, symbols)
		if err != nil {
			return nil, err
		}
		p.Events = reasons[key]
		slices.Sort(p.Events)
		// An event of an attempt from before may be written after the mark: then only the order tells.
		p.Failed = now[key].Failed > before[key].Failed && (now[key].Done == before[key].Done || now[key].LastFailed)
		out[key] = p
	}
	return out, nil
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
