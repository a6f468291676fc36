package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/isthmus-cloud/isthmus/pkg/cli/access"
	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/lb"
)

func explainService(ctx context.Context, q *question) error {
	namespace, err := q.namespace, error(nil)
	if namespace == "" {
		if namespace, err = q.access.Namespace(); err != nil {
			return err
		}
	}
	s, err := q.client.CoreV1().Services(namespace).Get(ctx, q.name, metav1.GetOptions{})
	if err != nil {
		return access.Failed(ctx, q.client, "read the Service", err)
	}
	q.report.Object = "service/" + s.Namespace + "/" + s.Name
	if q.report.Events, err = q.warnings(ctx, s); err != nil {
		return err
	}
	if q.cloud.LoadBalancers == nil {
		q.report.fact("served by", "not by cloud "+q.cloud.Name+": its configuration serves no load balancers")
		q.report.Plan.Note = "nothing to do"
		q.report.CloudNote = "nothing is made there for Services"
		return nil
	}
	x := &served{question: q, service: s}
	cluster, err := q.access.Cluster(ctx, q.client, q.cloud)
	if err != nil {
		return err
	}
	x.claims = lb.Claims{Classes: lb.NewClasses(&q.cloud.LoadBalancing, q.defaultClass), Cluster: cluster, Provider: &q.cloud.Provider}
	if x.nodes, err = q.allNodes(ctx); err != nil {
		return err
	}
	x.follow(ctx)
	x.owned(ctx)
	return nil
}

// served is a Service and what is known of its load balancer.
type served struct {
	*question
	service *corev1.Service
	claims  lb.Claims
	nodes   []*corev1.Node
	// id is the cloud's of the load balancer, where it has told it.
	id string
}

// follow says what the controller would do, by the rules by which it decides.
func (x *served) follow(ctx context.Context) {
	r, class := x.report, ptr.Deref(x.service.Spec.LoadBalancerClass, "")
	switch x.claims.Turn(x.service, nil) {
	case lb.Serve:
		r.fact("served by", "this controller manager: "+x.why(class))
		x.ensure(ctx)
	case lb.Replace:
		r.fact("served by", "this controller manager: "+x.why(class)+"; its load balancer is of another class and is replaced")
		if x.remove(ctx) {
			x.ensure(ctx)
		}
	case lb.Remove:
		r.fact("served by", "nobody of ours any more: "+x.whyNot(class)+"; its load balancer is deleted")
		if x.remove(ctx) {
			x.setFinalizers(x.claims.Released(x.service))
		}
	case lb.Leave:
		r.fact("served by", "not by this controller manager: "+x.whyNot(class))
		if x.claims.Classes.Misspelled(class) {
			r.problem(fmt.Sprintf("spec.loadBalancerClass %q is no class of this cloud's configuration: nobody serves it", class),
				"use one of "+strings.Join(x.claims.Classes.All(), ", ")+", or add the class to cloud.conf")
		}
		r.Plan.Note = "nothing to do: others serve it, or nobody does"
	case lb.Strand:
		r.problem(fmt.Sprintf("its load balancer is not deleted: the finalizer %q is of a class that this cloud's configuration has no longer", x.claims.Stranded(x.service)),
			"add the class to cloud.conf again, or delete the load balancer and the finalizer yourself")
	case lb.Nothing:
		r.fact("served by", "not by this controller manager: "+x.whyNot(class))
		r.Plan.Note = "nothing to do: it asks for no load balancer, and has none of ours"
	}
}

func (x *served) why(class string) string {
	if class == "" {
		return "it is of type LoadBalancer and has no class"
	}
	return fmt.Sprintf("its class %q is one of this cloud's configuration", class)
}

func (x *served) whyNot(class string) string {
	s := x.service
	switch elsewhere := x.claims.Classes.Elsewhere(s); {
	case s.DeletionTimestamp != nil:
		return "it is being deleted"
	case !lb.Wants(s):
		return "its type is " + string(s.Spec.Type)
	case class != "":
		return fmt.Sprintf("its class %q is none of this cloud's configuration, which has %s", class, strings.Join(x.claims.Classes.All(), ", "))
	case elsewhere != "":
		return "its annotations name " + elsewhere
	}
	return "it has no class, and Services without one are not served (--load-balancer-default-class)"
}

// ensure says what a sync does that reads everything afresh, as each does from time to time.
func (x *served) ensure(ctx context.Context) {
	class, _ := x.claims.Classes.Of(x.service)
	candidates := slices.DeleteFunc(slices.Clone(x.nodes), func(n *corev1.Node) bool { return lb.Excluded(n, x.cloud.LoadBalancing.Reach) != "" })
	spec, warnings, err := lb.Plan(x.service, lb.NewNodes(candidates, &x.cloud.LoadBalancing), x.claims.Cluster, &x.cloud.Provider)
	x.wish(spec)
	x.members(spec)
	for _, w := range warnings {
		x.report.fact("warning", w)
	}
	if err != nil {
		x.refused(ctx, spec, err)
		return
	}
	x.setFinalizers(x.claims.Finalizers(x.service))
	spec.Class, spec.Verify = class, true
	var status *cloud.LoadBalancerStatus
	err = x.patiently(ctx, func() (err error) {
		status, err = x.cloud.LoadBalancers.Ensure(ctx, spec)
		return err
	})
	steps := x.calls.took()
	x.report.Plan.Steps = append(x.report.Plan.Steps, steps...)
	if status != nil {
		if len(steps) == 0 { // else it may be what a dry run has made up
			x.id = status.ID
		}
		for _, w := range status.Warnings {
			x.report.fact("warning", w)
		}
	}
	switch {
	case err == nil:
		x.publish(status, len(steps) > 0)
	case cloud.KindOf(err) == cloud.KindRetryAfter:
		x.report.Plan.Note = onceDone + err.Error()
	default:
		x.refused(ctx, spec, err)
	}
}

// refused says what is wrong with a wish, and what its load balancer gets all the same.
func (x *served) refused(ctx context.Context, spec *cloud.LoadBalancerSpec, err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		x.failed("a sync fails", cloud.Errorf(cloud.KindOf(err), "%s", line), "mend what it says; it is tried again when the Service changes, and from time to time")
	}
	x.report.Plan.Note = "nothing to do until that is mended"
	if len(x.service.Status.LoadBalancer.Ingress) == 0 {
		return
	}
	frozen := *spec
	frozen.Frozen, frozen.Verify = true, false
	if err := x.patiently(ctx, func() error { return x.cloud.LoadBalancers.UpdateMembers(ctx, &frozen) }); err != nil && !cloud.IsNotFound(err) {
		x.report.fact("members", "they cannot follow the Nodes: "+err.Error())
	}
	x.report.Plan.Steps = append(x.report.Plan.Steps, x.calls.took()...)
	x.report.Plan.Note = "until that is mended its load balancer stays as it is, but for its members"
}

// remove says what a deletion does. It reports whether anything can follow it.
func (x *served) remove(ctx context.Context) bool {
	err := x.patiently(ctx, func() error { return cloud.IgnoreNotFound(x.cloud.LoadBalancers.Delete(ctx, x.claims.Hint(x.service))) })
	x.report.Plan.Steps = append(x.report.Plan.Steps, x.calls.took()...)
	switch {
	case err == nil:
		return true
	case cloud.KindOf(err) == cloud.KindRetryAfter:
		x.report.Plan.Note = onceDone + err.Error()
	default:
		x.failed("the deletion of its load balancer fails", err, "mend what it says; it is tried again from time to time")
	}
	return false
}

// onceDone begins a note about what the cloud has not done yet.
const onceDone = "it goes on when the cloud has done that: "

const (
	// mostTries is how often what the cloud is not done with is asked again, and patience the longest wait for that.
	mostTries = 4
	patience  = 2 * time.Second
)

// patiently asks again, as the controller does, while a cloud only waits for a short while for what others of its objects do.
func (x *served) patiently(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		wait := cloud.RetryAfter(err)
		if cloud.KindOf(err) != cloud.KindRetryAfter || wait > patience || n == mostTries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// setFinalizers is a step where the Service has others.
func (x *served) setFinalizers(want []string) {
	if !slices.Equal(x.service.Finalizers, want) {
		x.write("set the finalizers: " + cmp.Or(strings.Join(want, ", "), "none"))
	}
}

// publish is a step where the Service shows something else. While the cloud is changed, the addresses may be others afterwards.
func (x *served) publish(status *cloud.LoadBalancerStatus, changes bool) {
	if changes {
		x.report.Plan.Note = "then the Service shows the load balancer's addresses"
		return
	}
	if !lb.SameIngress(x.service.Status.LoadBalancer.Ingress, status.Ingress) {
		x.write("show the addresses: " + cmp.Or(strings.Join(addresses(status.Ingress), ", "), "none"))
	}
	for _, key := range slices.Sorted(maps.Keys(status.Annotations)) {
		if got, has := x.service.Annotations[key]; got != status.Annotations[key] || has && got == "" {
			x.write(strings.TrimSuffix("set the annotation "+key+"="+status.Annotations[key], "="))
		}
	}
}

func (x *served) write(words string) {
	x.report.kube(words, "PATCH /api/v1/namespaces/"+x.service.Namespace+"/services/"+x.service.Name+"/status")
}

func addresses(in []corev1.LoadBalancerIngress) []string {
	var out []string
	for _, i := range in {
		out = append(out, cmp.Or(i.IP, i.Hostname))
	}
	return out
}

// wish says what the load balancer is to be.
func (x *served) wish(spec *cloud.LoadBalancerSpec) {
	r := x.report
	var ports, ranges, settings []string
	for _, p := range spec.Ports {
		to := fmt.Sprintf(" to node port %d", p.NodePort)
		if p.NodePort == 0 {
			to = ""
		}
		ports = append(ports, fmt.Sprintf("%s %d%s", p.Protocol, p.Port, to))
	}
	for _, p := range spec.SourceRanges {
		ranges = append(ranges, p.String())
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Settings)) {
		settings = append(settings, key+"="+spec.Settings[key])
	}
	r.fact("ports", strings.Join(ports, ", "))
	r.fact("families", strings.Trim(fmt.Sprint(spec.IPFamilies), "[]"))
	r.fact("clients", cmp.Or(strings.Join(ranges, ", "), "everyone"))
	if spec.LoadBalancerIP.IsValid() {
		r.fact("address", spec.LoadBalancerIP.String()+" (spec.loadBalancerIP)")
	}
	if spec.SessionAffinityTimeout > 0 {
		r.fact("affinity", "by client for "+spec.SessionAffinityTimeout.String())
	}
	if h := spec.HealthCheck; h != nil {
		r.fact("health check", fmt.Sprintf("HTTP GET :%d%s on each Node (externalTrafficPolicy Local)", h.Port, h.Path))
	}
	r.fact("annotations", strings.Join(settings, ", "))
	r.fact("shows", strings.Join(addresses(x.service.Status.LoadBalancer.Ingress), ", "))
}

// members says of each Node whether it is behind the load balancer.
func (x *served) members(spec *cloud.LoadBalancerSpec) {
	traits, in := &x.cloud.LoadBalancing, map[string]bool{}
	for _, m := range spec.Members {
		in[m.Node.NodeName] = true
	}
	selector, err := lb.Selector(x.service, x.cloud.Annotations)
	if err != nil { // which is a problem already
		selector = labels.Everything()
	}
	for _, n := range x.nodes {
		m := member{Node: n.Name, Member: in[n.Name], Why: lb.Excluded(n, traits.Reach)}
		switch {
		case m.Member || m.Why != "":
		case traits.Eligible != nil && !traits.Eligible(n):
			m.Why = fmt.Sprintf("the cloud's configuration leaves it out, or its instance is none of %s: provider ID %q", x.cloud.Name, n.Spec.ProviderID)
		case !lb.IsReachable(n, traits.Reach) && traits.Reach == cloud.ByInstance:
			m.Why = "it has no provider ID, so that its instance is not known"
		case !lb.IsReachable(n, traits.Reach):
			m.Why = "it has no address by which load balancers reach it"
		case !selector.Matches(labels.Set(n.Labels)):
			m.Why = fmt.Sprintf("the selector %q does not select it", selector)
		default:
			m.Why = "the Service's plan is not valid"
		}
		x.report.Nodes = append(x.report.Nodes, m)
	}
}

// owned lists what carries the Service's mark in the cloud.
func (x *served) owned(ctx context.Context) {
	r := x.report
	if x.id != "" {
		r.fact("load balancer", x.id)
	}
	if x.cloud.Inventory == nil {
		r.CloudNote = "cloud " + x.cloud.Name + " has no list of what belongs to a cluster"
		return
	}
	all, err := x.cloud.Inventory.Owned(ctx, x.claims.Cluster)
	if err != nil {
		x.failed("what belongs to it in the cloud cannot be listed", err, "mend what it says, and ask again")
		r.CloudNote = "not known"
		return
	}
	key := x.service.Namespace + "/" + x.service.Name
	for i := range all {
		o := &all[i]
		if o.Mark.Service == key || o.Mark.ServiceUID == string(x.service.UID) || slices.Contains(o.Users, key) {
			r.owns(o)
		}
	}
}

const (
	// serviceController is what cloud controller managers call themselves in events about Services.
	serviceController = "service-controller"
	// mostEvents is how many warnings are told.
	mostEvents = 5
)

// warnings are the last that a cloud controller manager has published of the Service, the newest first.
func (q *question) warnings(ctx context.Context, s *corev1.Service) ([]event, error) {
	selector := fields.Set{"involvedObject.kind": "Service", "involvedObject.name": s.Name, "type": corev1.EventTypeWarning}.AsSelector().String()
	list, err := q.client.CoreV1().Events(s.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: access.PageSize})
	if err != nil {
		return nil, access.Failed(ctx, q.client, "list events of the Service", err)
	}
	all := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.UID != s.UID || e.Source.Component != serviceController && e.ReportingController != serviceController
	})
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return said(&b).Compare(said(&a)) })
	var out []event
	for i := range all[:min(mostEvents, len(all))] {
		e := &all[i]
		out = append(out, event{said(e).UTC().Format(time.RFC3339), e.Reason, e.Message})
	}
	return out, nil
}

// said is when an event was published last.
func said(e *corev1.Event) time.Time {
	if e.LastTimestamp.IsZero() {
		return e.CreationTimestamp.Time
	}
	return e.LastTimestamp.Time
}
