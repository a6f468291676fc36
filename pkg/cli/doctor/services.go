package doctor

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

func checkServices(ctx context.Context, p *patient) (found []output.Finding, err error) {
	var warnings map[types.UID]*corev1.Event // nil until one is asked for
	for i := range p.services {
		s := &p.services[i]
		leaves := s.DeletionTimestamp != nil
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil || !leaves && len(s.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		since := s.CreationTimestamp.Time
		if leaves {
			since = s.DeletionTimestamp.Time
		}
		if p.clock.Since(since) < fresh {
			continue
		}
		if warnings == nil && err == nil { // else each one may take until a timeout
			warnings, err = p.warnings(ctx)
		}
		why := unreadEvents
		switch last := warnings[s.UID]; {
		case last != nil:
			why = last.Reason + ": " + strings.TrimSpace(last.Message)
		case err == nil:
			why = noEvent
		}
		f := output.Finding{Severity: output.Error, Object: "service/" + s.Namespace + "/" + s.Name, Message: "it has no address: " + why,
			Next: "mend what the event says: kubectl -n " + s.Namespace + " describe service " + s.Name}
		switch {
		case leaves:
			f.Message = "it is being deleted, and its load balancer is not gone: " + why
		case p.cloud != nil && p.cloud.LoadBalancers == nil:
			f.Next = "this cloud's configuration serves no load balancers: turn them on in cloud.conf, or give the Service the class of who serves it"
		case why == noEvent:
			f.Next = "look whether a controller manager leads, and whether it runs service-lb-controller (--controllers)"
		}
		found = append(found, f)
	}
	return found, err
}

// What stands for the controller manager's words where there are none.
const (
	noEvent      = "there is no event that says why"
	unreadEvents = "its events could not be read"
)

// serviceController is what cloud controller managers call themselves in events about Services.
const serviceController = "service-controller"

// warnings are the newest Warnings of cloud controller managers about Services, by the Service's UID: one read for all, as in an outage
// many Services are stuck. What others say, such as the API server of cluster IPs, is not why there is no load balancer, nor is what was
// said of a former Service of that name.
func (p *patient) warnings(ctx context.Context) (map[types.UID]*corev1.Event, error) {
	newest := map[types.UID]*corev1.Event{}
	selector := fields.Set{"involvedObject.kind": "Service", "type": corev1.EventTypeWarning}.AsSelector().String()
	err := access.Pages(func(o metav1.ListOptions) (metav1.ListInterface, error) {
		o.FieldSelector = selector
		events, err := p.client.CoreV1().Events("").List(ctx, o)
		if err != nil {
			return nil, err
		}
		for i := range events.Items {
			e := &events.Items[i]
			if e.Source.Component != serviceController && e.ReportingController != serviceController {
				continue
			}
			if last := newest[e.InvolvedObject.UID]; last == nil || last.LastTimestamp.Before(&e.LastTimestamp) {
				newest[e.InvolvedObject.UID] = e
			}
		}
		return events, nil
	})
	if err != nil {
		return nil, access.Failed(ctx, p.client, "list events of Services", err)
	}
	return newest, nil
}
