package doctor

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
)

func checkServices(ctx context.Context, p *patient) (found []output.Finding, err error) {
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
		why := unreadEvents
		if err == nil { // else each one may take until a timeout
			why, err = p.lastWarning(ctx, s)
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

// lastWarning is the newest Warning of a cloud controller manager about a Service, or noEvent. What others say, such as the API
// server of cluster IPs, is not why there is no load balancer, nor is what was said of a former Service of that name.
func (p *patient) lastWarning(ctx context.Context, s *corev1.Service) (string, error) {
	selector := fields.Set{"involvedObject.kind": "Service", "involvedObject.name": s.Name, "type": corev1.EventTypeWarning}.AsSelector().String()
	events, err := p.client.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: access.PageSize})
	if err != nil {
		return unreadEvents, access.Failed(ctx, p.client, "list events of service/"+s.Namespace+"/"+s.Name, err)
	}
	var last *corev1.Event
	for i := range events.Items {
		e := &events.Items[i]
		if e.InvolvedObject.UID != s.UID || e.Source.Component != serviceController && e.ReportingController != serviceController {
			continue
		}
		if last == nil || last.LastTimestamp.Before(&e.LastTimestamp) {
			last = e
		}
	}
	if last == nil {
		return noEvent, nil
	}
	return last.Reason + ": " + strings.TrimSpace(last.Message), nil
}
