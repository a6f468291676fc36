package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

// checkOfCluster is the check on which all others of the cluster build.
const checkOfCluster = "cluster"

// errNoServer is what a client is told that uses the API server though checkCluster could not.
var errNoServer = errors.New("the API server cannot be asked")

// checkCluster reads what other checks need. Where nobody answers the first question none is asked any more.
func checkCluster(ctx context.Context, p *patient) ([]output.Finding, error) {
	err := p.kubeconfig
	if err == nil {
		_, err = p.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		err = access.Failed(ctx, p.client, "read namespace "+metav1.NamespaceSystem, err)
	}
	if err != nil && !apierrors.IsForbidden(err) {
		p.cannot(theServer, errNoServer.Error(), checkOfCluster)
		none, problem := access.Unreachable(errNoServer)
		p.client = none
		return nil, errors.Join(err, problem)
	}
	errs := []error{err}
	err = access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := p.client.CoreV1().Nodes().List(ctx, o)
		if err == nil {
			p.nodes = append(p.nodes, list.Items...)
		}
		return list, err
	})
	if err != nil {
		p.cannot(theNodes, "the Nodes could not be read", checkOfCluster)
		errs = append(errs, access.Failed(ctx, p.client, "list Nodes", err))
	}
	err = access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		list, err := p.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, o)
		if err == nil {
			p.services = append(p.services, list.Items...)
		}
		return list, err
	})
	if err != nil {
		p.cannot(theServices, "the Services could not be read", checkOfCluster)
		errs = append(errs, access.Failed(ctx, p.client, "list Services", err))
	}
	return nil, errors.Join(errs...)
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
		return nil, access.Failed(ctx, p.client, "read "+object, err)
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
