package routes

import (
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/config"
	"github.com/isthmus-cloud/isthmus/pkg/providers/vsphere/paravirtual/supervisor"
)

// The labels of routes, which are those of the existing manager.
const (
	labelCluster = "clusterName"
	labelNode    = "nodeName"
	labelFamily  = "ipfamily"
)

// The kinds of objects that are routes.
var (
	routeSets    = supervisor.Resource{Group: "nsx.vmware.com", Version: "v1alpha1", Kind: "RouteSet", Plural: "routesets"}
	staticRoutes = supervisor.Resource{Group: "crd.nsx.vmware.com", Version: "v1alpha1", Kind: "StaticRoute", Plural: "staticroutes"}
)

// Resource is the kind of objects that routes are.
func Resource(cfg *config.Cluster) supervisor.Resource {
	if cfg.EnableVPCMode {
		return staticRoutes
	}
	return routeSets
}

// object is what is read of either kind.
type object struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		// Routes are a RouteSet's.
		Routes []struct {
			Destination string `json:"destination"`
			Target      string `json:"target"`
		} `json:"routes"`
		// Network and NextHops are a StaticRoute's.
		Network  string `json:"network"`
		NextHops []struct {
			IPAddress string `json:"ipAddress"`
		} `json:"nextHops"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// routes are where an object leads; what does not parse is left out.
func (o *object) routes() (out []cloud.Route) {
	add := func(destination, hop string) {
		d, err := netip.ParsePrefix(destination)
		h, hopErr := netip.ParseAddr(hop)
		if err == nil && hopErr == nil {
			out = append(out, cloud.Route{Destination: d.Masked(), NextHop: h, ID: o.Name})
		}
	}
	for _, r := range o.Spec.Routes {
		add(r.Destination, r.Target)
	}
	for _, h := range o.Spec.NextHops {
		add(o.Spec.Network, h.IPAddress)
	}
	return out
}

// ready reports whether NSX has realized the route; why says what it tells otherwise.
func (o *object) ready() (ready bool, why string) {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == string(metav1.ConditionTrue), c.Reason + " " + c.Message
		}
	}
	return false, "it has no condition Ready"
}

// single is the one route of an object, false where it has none or several.
func (o *object) single() (cloud.Route, bool) {
	if all := o.routes(); len(all) == 1 && len(o.Spec.Routes)+len(o.Spec.NextHops) == 1 {
		return all[0], true
	}
	return cloud.Route{}, false
}

// leads reports whether an object has a route with that destination and hop.
func (o *object) leads(r cloud.Route) bool {
	return slices.ContainsFunc(o.routes(), func(a cloud.Route) bool { return a.Destination == r.Destination.Masked() && a.NextHop == r.NextHop })
}
