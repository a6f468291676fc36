package doctor

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cli/output"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func checkServices(ctx context.Context, p *patient) (found []output.Finding, err error) {
	var warnings map[types.UID]*corev1.Event // nil until one is asked for
	for i := range p.services {
		s := &p.services[i]
		leaves := s.DeletionTimestamp != nil
		if !p.serves(s) || !leaves && len(s.Status.LoadBalancer.Ingress) > 0 {
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
		case p.misspelled(s):
			f.Message = fmt.Sprintf("it has no address: nobody serves the class %q", *s.Spec.LoadBalancerClass)
			f.Next = "make the Service anew with a class that cloud.conf has: " + strings.Join(lb.NewClasses(&p.cloud.LoadBalancing, true).All(), ", ")
		case why == noEvent:
			f.Next = "look whether a controller manager leads, and whether it runs service-lb-controller (--controllers)"
		}
		found = append(found, f)
	}
	return found, err
}

// serves reports whether a Service is one of the controller manager's, with the flags that it has by default. Without the cloud's
// configuration its classes are not known.
func (p *patient) serves(s *corev1.Service) bool {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return false
	}
	if p.cloud == nil || p.cloud.LoadBalancers == nil {
		return s.Spec.LoadBalancerClass == nil
	}
	_, served := lb.NewClasses(&p.cloud.LoadBalancing, true).Of(s)
	return served || p.misspelled(s)
}

// misspelled reports whether a Service has a class that begins as the cloud's do, and is none.
func (p *patient) misspelled(s *corev1.Service) bool {
	class := s.Spec.LoadBalancerClass
	return class != nil && p.cloud != nil && lb.NewClasses(&p.cloud.LoadBalancing, true).Misspelled(*class)
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
