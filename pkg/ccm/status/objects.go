package status

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/pv"
	"github.com/isthmus-cloud/isthmus/pkg/text"
)

func (s Source) nodes() List[Object] {
	if s.Nodes == nil {
		return sorted(nil)
	}
	all, _ := s.Nodes.List(labels.Everything()) // a cache has no error
	rows := make([]Object, 0, len(all))
	for _, n := range all {
		row := Object{Name: text.Line(n.Name, maxText), Detail: text.Line(n.Spec.ProviderID, maxText), State: "initialized"}
		for _, t := range n.Spec.Taints {
			switch t.Key {
			case cloudproviderapi.TaintExternalCloudProvider:
				row.State, row.Waits = "waits for the cloud's data", true
			case cloudproviderapi.TaintNodeShutdown:
				row.State = "shut down"
			}
		}
		switch {
		case n.Labels[cloud.ExcludeNode] == "true":
			row.State, row.Waits = "left alone: it has the label "+cloud.ExcludeNode, false
		case !s.owns(n):
			row.State, row.Waits = "another cloud's", false
		}
		rows = append(rows, row)
	}
	return sorted(rows)
}

func (s Source) owns(n *corev1.Node) bool { return s.Owns == nil || s.Owns(n) }

func (s Source) balancers() List[Object] {
	if s.Services == nil {
		return sorted(nil)
	}
	all, _ := s.Services.List(labels.Everything()) // a cache has no error
	var rows []Object
	for _, v := range all {
		if v.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		row := Object{Namespace: text.Line(v.Namespace, maxText), Name: text.Line(v.Name, maxText), State: "has an address"}
		switch in := v.Status.LoadBalancer.Ingress; {
		case v.DeletionTimestamp != nil:
			row.State, row.Waits = "is being deleted", true
		case len(in) > 0:
			row.Detail = text.Line(cmp.Or(in[0].IP, in[0].Hostname), maxText)
		case v.Spec.LoadBalancerClass != nil:
			row.State, row.Waits = "waits for an address, of class "+text.Line(*v.Spec.LoadBalancerClass, maxText), true
		default:
			row.State, row.Waits = "waits for an address", true
		}
		rows = append(rows, row)
	}
	return sorted(rows)
}

// RouteCondition is how the route controller's condition NetworkUnavailable of a Node is: made says that the Node's routes are there, ok
// that it was the controller who wrote it, and not a network plugin.
func RouteCondition(n *corev1.Node) (made, ok bool) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && (c.Reason == "RouteCreated" || c.Reason == "NoRouteCreated") {
			return c.Status == corev1.ConditionFalse, true
		}
	}
	return false, false
}

func (s Source) routes() List[Object] {
	if s.Nodes == nil || !s.Routes {
		return sorted(nil)
	}
	all, _ := s.Nodes.List(labels.Everything()) // a cache has no error
	rows := make([]Object, 0, len(all))
	for _, n := range all {
		if len(n.Spec.PodCIDRs) == 0 || !s.owns(n) {
			continue
		}
		row := Object{Name: text.Line(n.Name, maxText), Detail: text.Line(strings.Join(n.Spec.PodCIDRs, ", "), maxText), State: "routed"}
		if made, _ := RouteCondition(n); !made {
			row.State, row.Waits = "waits for its route", true
		}
		rows = append(rows, row)
	}
	return sorted(rows)
}

func (s Source) volumes() List[Object] {
	if s.Volumes == nil {
		return sorted(nil)
	}
	all, _ := s.Volumes.List(labels.Everything()) // a cache has no error
	rows := make([]Object, 0, len(all))
	for _, v := range all {
		if s.Labels != nil && !s.Labels(v) {
			continue
		}
		zone, region := v.Labels[corev1.LabelTopologyZone], v.Labels[corev1.LabelTopologyRegion]
		row := Object{Name: text.Line(v.Name, maxText), Detail: text.Line(strings.TrimSpace(zone+" "+region), maxText), State: "has its place"}
		switch {
		case v.Labels[pv.OptOutLabel] == "true":
			row.State = "left alone: it has the label " + pv.OptOutLabel
		case pv.Lacks(v) && v.DeletionTimestamp == nil:
			row.State, row.Waits = "lacks "+lacking(v), zone == "" && v.Spec.NodeAffinity == nil
		}
		rows = append(rows, row)
	}
	return sorted(rows)
}

// lacking names what a PersistentVolume does not have of its place.
func lacking(v *corev1.PersistentVolume) string {
	var out []string
	if _, ok := v.Labels[corev1.LabelTopologyZone]; !ok {
		out = append(out, "its zone")
	}
	if _, ok := v.Labels[corev1.LabelTopologyRegion]; !ok {
		out = append(out, "its region")
	}
	if v.Spec.NodeAffinity == nil {
		out = append(out, "node affinity")
	}
	return strings.Join(out, ", ")
}

// sorted bounds objects, those that wait first.
func sorted(rows []Object) List[Object] {
	slices.SortFunc(rows, func(a, b Object) int {
		return cmp.Or(waitsFirst(a.Waits, b.Waits), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return bounded(rows, func(o Object) bool { return o.Waits })
}
