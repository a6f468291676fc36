package snapshot

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/isthmus-cloud/isthmus/test/differential"
	"github.com/isthmus-cloud/isthmus/test/differential/symbol"
)

// ReadServices adds to states, by scenario, what is published about the scenarios' Services.
// before and now say, by their events, how the last attempts ended.
func ReadServices(ctx context.Context, client kubernetes.Interface, symbols *symbol.Symbols, states map[string]*State, before, now differential.Mark) error {
	services, err := differential.ReadServices(ctx, client, symbols, before, now)
	if err != nil {
		return err
	}
	for key, p := range services {
		state := states[key.Namespace]
		if state == nil {
			continue
		}
		if state.Services == nil {
			state.Services = map[string]Published{}
		}
		state.Services[key.Name] = p
	}
	return nil
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
