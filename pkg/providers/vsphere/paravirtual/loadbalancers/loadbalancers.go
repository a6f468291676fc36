package loadbalancers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/supervisor"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

// again is after how long an object is looked at again that VM Operator works on.
const again = 500 * time.Millisecond

// LoadBalancers are the VirtualMachineServices of the guest cluster. It may be used concurrently, for one Service by one at a time.
type LoadBalancers struct {
	c          *supervisor.Client
	resource   supervisor.Resource
	legacy     bool
	ipFamilies bool
}

var _ cloud.LoadBalancers = (*LoadBalancers)(nil)

// New makes the load balancers of a guest cluster.
func New(c *supervisor.Client, cfg *config.Config) *LoadBalancers {
	return &LoadBalancers{c: c, legacy: cfg.Cluster.IsLegacyParavirtual, ipFamilies: cfg.Supervisor.HasIPFamilies(), resource: supervisor.Resource{
		Group: "vmoperator.vmware.com", Version: cfg.Supervisor.VMOperatorAPIVersion, Kind: "VirtualMachineService", Plural: "virtualmachineservices"}}
}

// Resource is the kind of their objects.
func (b *LoadBalancers) Resource() supervisor.Resource { return b.resource }

// Check is cloud.Provider.CheckLoadBalancer.
func (b *LoadBalancers) Check(s *cloud.LoadBalancerSpec) (problems field.ErrorList, warnings []string) {
	if families := field.NewPath("spec", "ipFamilies"); !b.ipFamilies && slices.Contains(s.IPFamilies, corev1.IPv6Protocol) {
		if s.IPFamilies[0] == corev1.IPv6Protocol {
			problems = append(problems, field.Invalid(families, s.IPFamilies, "load balancers of IPv6 need vmOperatorAPIVersion v1alpha6 in cloud.conf"))
		} else {
			warnings = append(warnings, families.String()+": the load balancer is of IPv4 alone: both families need vmOperatorAPIVersion v1alpha6 in cloud.conf")
		}
	}
	if s.SessionAffinityTimeout > 0 {
		warnings = append(warnings, "spec.sessionAffinity: the load balancer does not keep clients with a Node, as a VirtualMachineService cannot say that")
	}
	return problems, warnings
}

// found is an object that may be a Service's.
type found struct {
	obj *unstructured.Unstructured
	vmService
	whose cloud.Ownership
}

// Ensure implements cloud.LoadBalancers.
func (b *LoadBalancers) Ensure(ctx context.Context, s *cloud.LoadBalancerSpec) (*cloud.LoadBalancerStatus, error) {
	problems, warnings := b.Check(s)
	if err := cloud.Refuse(cloud.KindUnsupported, "", problems); err != nil {
		return nil, err
	}
	want, err := desired(s, b.legacy, b.ipFamilies)
	if err != nil {
		return nil, err
	}
	f, err := b.find(ctx, s.LoadBalancerRef)
	if err != nil {
		return nil, err
	}
	changed := true
	switch {
	case f == nil:
		f, err = b.create(ctx, s.LoadBalancerRef, want)
	case f.whose == cloud.Foreign:
		return nil, b.conflict(f)
	case f.DeletionTimestamp != nil:
		return nil, b.waiting(f, false, "is being deleted")
	default:
		f, changed, err = b.update(ctx, f, want)
	}
	if err != nil {
		return nil, err
	}
	status := statusOf(&f.vmService)
	if status == nil {
		return nil, b.waiting(f, changed, "has no address yet"+text.Clip(why(&f.vmService), 300))
	}
	status.Warnings = warnings
	return status, nil
}

// UpdateMembers implements cloud.LoadBalancers: VM Operator knows the machines by their labels, so that there is nothing to change.
func (b *LoadBalancers) UpdateMembers(ctx context.Context, s *cloud.LoadBalancerSpec) error {
	f, err := b.find(ctx, s.LoadBalancerRef)
	switch {
	case err != nil:
		return err
	case f == nil:
		return cloud.Errorf(cloud.KindNotFound, "Service %s/%s has no VirtualMachineService", s.Namespace, s.Name)
	case f.whose == cloud.Foreign:
		return b.conflict(f)
	}
	return nil
}

// Delete implements cloud.LoadBalancers.
func (b *LoadBalancers) Delete(ctx context.Context, s *cloud.LoadBalancerSpec) error {
	all, err := b.all(ctx, s.LoadBalancerRef, true)
	if err != nil {
		return err
	}
	for _, f := range all {
		if f.whose != cloud.Ours { // what the name alone speaks for may be anybody's
			continue
		}
		if err := b.remove(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the very object that was read. Nil when it is gone.
func (b *LoadBalancers) remove(ctx context.Context, f *found) error {
	gone := f.DeletionTimestamp != nil
	if !gone {
		if err := b.c.Delete(ctx, b.resource, f.obj); err != nil {
			return cloud.IgnoreNotFound(err)
		}
	}
	_, err := b.c.Get(ctx, b.resource, f.Name)
	if err == nil {
		return b.waiting(f, !gone, "is not gone yet")
	}
	return cloud.IgnoreNotFound(err)
}

// all are the objects that may be the Service's: the one of its name, and those of other names with its labels; these only where the
// one is not ours, or everything is wanted.
func (b *LoadBalancers) all(ctx context.Context, r cloud.LoadBalancerRef, everything bool) ([]*found, error) {
	var out []*found
	obj, err := b.c.Get(ctx, b.resource, nameOf(r))
	switch {
	case err == nil:
		f, err := b.read(obj, r)
		if err != nil {
			return nil, err
		}
		if out = append(out, f); f.whose == cloud.Ours && !everything {
			return out, nil
		}
	case !cloud.IsNotFound(err):
		return nil, err
	}
	older, err := b.c.List(ctx, b.resource, labelsOf(r))
	if err != nil {
		return nil, err
	}
	for n := range older {
		f, err := b.read(&older[n], r)
		if err != nil {
			return nil, err
		}
		if f.Name != nameOf(r) {
			out = append(out, f)
		}
	}
	return out, nil
}

// find is the Service's object, or somebody else's that has its name; nil where there is none.
func (b *LoadBalancers) find(ctx context.Context, r cloud.LoadBalancerRef) (*found, error) {
	all, err := b.all(ctx, r, false)
	if err != nil {
		return nil, err
	}
	var own []*found
	for _, f := range all {
		if f.whose != cloud.Foreign {
			own = append(own, f)
		}
	}
	switch {
	case len(own) > 1:
		return nil, cloud.Errorf(cloud.KindConflict, "there are two objects of Service %s/%s: %s and %s; delete the one in the Supervisor whose address nobody uses",
			r.Namespace, r.Name, b.c.Name(b.resource, own[0].Name), own[1].Name)
	case len(own) == 1:
		return own[0], nil
	case len(all) > 0 && all[0].Name == nameOf(r):
		return all[0], nil
	}
	return nil, nil
}

// read judges whose an object is.
func (b *LoadBalancers) read(obj *unstructured.Unstructured, r cloud.LoadBalancerRef) (*found, error) {
	f := &found{obj: obj}
	if err := supervisor.Decode(obj, &f.vmService); err != nil {
		return nil, err
	}
	m := cloud.Mark{ClusterUID: f.Labels[labelClusterUID], ClusterID: b.c.ClusterOf(f.OwnerReferences)}
	if f.Labels[labelName] != "" {
		m.Service = f.Labels[labelNamespace] + "/" + f.Labels[labelName]
	}
	f.whose = cloud.Judge(m, cloud.Evidence{NameFits: f.Name == nameOf(r) || f.Labels[labelCluster] == r.Cluster.Name, Published: published(&f.vmService, r)}, r)
	return f, nil
}

// conflict says that an object is somebody else's.
func (b *LoadBalancers) conflict(f *found) error {
	var owners []string
	for _, o := range f.OwnerReferences {
		owners = append(owners, fmt.Sprintf("%s %s (%s)", o.Kind, o.Name, o.UID))
	}
	return cloud.Errorf(cloud.KindConflict, "%s has the Service's name, but is not this cluster's: its owners are %q, its labels %q; give the cluster another --cluster-name, or delete it in the Supervisor if nobody uses it",
		b.c.Name(b.resource, f.Name), strings.Join(owners, ", "), fmt.Sprint(f.Labels))
}

// waiting says that VM Operator works on an object.
func (b *LoadBalancers) waiting(f *found, progress bool, how string) error {
	return &cloud.Error{Kind: cloud.KindRetryAfter, RetryAfter: again, Progress: progress, Err: fmt.Errorf("%s %s", b.c.Name(b.resource, f.Name), how)}
}

// create makes the Service's object.
func (b *LoadBalancers) create(ctx context.Context, r cloud.LoadBalancerRef, want *vmService) (*found, error) {
	if r.Cluster.Name == "" {
		return nil, cloud.Errorf(cloud.KindInvalid, "--cluster-name is empty, after which VirtualMachineServices are named: set it to the guest cluster's name")
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want.Spec)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetName(nameOf(r))
	obj.SetLabels(want.Labels)
	obj.SetAnnotations(want.Annotations)
	obj.SetOwnerReferences([]metav1.OwnerReference{b.c.Owner()})
	made, err := b.c.Create(ctx, b.resource, obj)
	if err != nil {
		return nil, err
	}
	return b.read(made, r)
}

// update gives an object what it lacks, if it does.
func (b *LoadBalancers) update(ctx context.Context, f *found, want *vmService) (now *found, changed bool, err error) {
	next := f.obj.DeepCopy()
	differ := fields(&f.Spec, &want.Spec)
	for name, value := range differ {
		if err := set(next, name, value); err != nil {
			return nil, false, err
		}
	}
	annotations := next.GetAnnotations()
	for _, name := range []string{annotationPolicy, annotationCheck} {
		is, there := annotations[name]
		value, wanted := want.Annotations[name]
		if is == value && there == wanted {
			continue
		}
		differ[name] = value
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[name] = value; !wanted {
			delete(annotations, name)
		}
	}
	if len(differ) == 0 && f.whose == cloud.Ours {
		return f, false, nil
	}
	next.SetAnnotations(annotations)
	labels := next.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range want.Labels {
		labels[name] = value
	}
	next.SetLabels(labels)
	if f.whose == cloud.Adopt {
		owner := b.c.Owner()
		if metav1.GetControllerOf(next) != nil { // there can be one only
			owner.Controller = nil
		}
		next.SetOwnerReferences(append(next.GetOwnerReferences(), owner))
	}
	written, err := b.c.Update(ctx, b.resource, next)
	if err != nil {
		return nil, false, err
	}
	now = &found{obj: written, whose: cloud.Ours}
	return now, true, supervisor.Decode(written, &now.vmService)
}

// set writes a field of the spec, of one of the types that fields has; an empty one goes.
func set(obj *unstructured.Unstructured, name string, value any) error {
	switch v := value.(type) {
	case string:
		if v != "" {
			return unstructured.SetNestedField(obj.Object, v, "spec", name)
		}
	case []string:
		if len(v) > 0 {
			return unstructured.SetNestedStringSlice(obj.Object, v, "spec", name)
		}
	case []port:
		var all []any
		for i := range v {
			p, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v[i])
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		return unstructured.SetNestedSlice(obj.Object, all, "spec", name)
	}
	unstructured.RemoveNestedField(obj.Object, "spec", name)
	return nil
}
