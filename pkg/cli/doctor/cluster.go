package doctor

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// checkOfCluster is the check without which there are no others.
const checkOfCluster = "cluster"

func checkCluster(ctx context.Context, p *patient) ([]output.Finding, error) {
	if _, err := p.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("the API server: %w", err)
	}
	err := access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := p.client.CoreV1().Nodes().List(ctx, o)
		if err == nil {
			p.nodes = append(p.nodes, list.Items...)
		}
		return list, err
	})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	err = access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := p.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
		if err == nil {
			p.services = append(p.services, list.Items...)
		}
		return list, err
	})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	return nil, nil
}

// managerLease is the lease of the controller manager that leads, unless --leader-elect-resource-name names another.
const managerLease = "cloud-controller-manager"

func checkManager(ctx context.Context, p *patient) ([]output.Finding, error) {
	object := "lease " + metav1.NamespaceSystem + "/" + managerLease
	lease, err := p.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, managerLease, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return []output.Finding{{Severity: output.Error, Object: object, Message: "no cloud controller manager has led this cluster",
			Next: "look whether its pods run: kubectl -n kube-system get pods; and at their logs; with another --leader-elect-resource-name this is no fault"}}, nil
	case err != nil:
		return nil, err
	}
	if age := p.leaseAge(lease); age > 0 {
		return []output.Finding{{Severity: output.Error, Object: object, Message: fmt.Sprintf("%q has not renewed it for %s: nobody leads", holder(lease), age.Round(time.Second)),
			Next: "look whether the controller manager's pods run: kubectl -n kube-system get pods; and at their logs"}}, nil
	}
	return nil, nil
}

// leaseAge is how long ago a lease was renewed, 0 where its holder still has it.
func (p *patient) leaseAge(l *coordinationv1.Lease) time.Duration {
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil || holder(l) == "" {
		return max(p.clock.Since(l.CreationTimestamp.Time), 1)
	}
	age := p.clock.Since(l.Spec.RenewTime.Time)
	if age <= 2*time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second { // clocks differ
		return 0
	}
	return age
}

func holder(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}
