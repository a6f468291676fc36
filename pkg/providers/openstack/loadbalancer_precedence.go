package openstack

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/isthmus-cloud/isthmus/pkg/cloud"
	"github.com/isthmus-cloud/isthmus/pkg/providers/openstack/config"
)

// Here is which of class, annotation and cloud.conf counts, field by field. The order is that of
// the existing manager, whose load balancers are taken over, also where it is odd:
//
//   - VIP: the class, the annotation, cloud.conf; of an internal load balancer the annotation goes
//     before the class. A section [LoadBalancerClass] without a name goes before all of them for
//     Services without a class and for internal ones.
//   - Members: the annotation, the class and cloud.conf's member-subnet-id; else cloud.conf's
//     subnet-id, the annotation for the VIP, the class's subnet for it, or for members that come
//     later the class's only. A subnet for VIPs is a member's only if it holds its address: there
//     the existing manager cuts members off.
//   - Floating IP: the class, the annotation, cloud.conf; a floating subnet's three keys count as a
//     whole, and the ID goes before name and tags.

// class is the name of the class, which spec.loadBalancerClass or the annotation picks.
func (w *lbWishes) class() string {
	name := w.spec.Settings.String(annClass, "")
	if w.spec.Class != "" && name != "" && name != w.spec.Class {
		w.refuse(field.Invalid(cloud.AnnotationPath(annClass), name, fmt.Sprintf("spec.loadBalancerClass picks the class %q: remove the annotation", w.spec.Class)))
	}
	return cmp.Or(w.spec.Class, name)
}

// classOf is the section of the class of that name, an empty one where there is none, which is a
// problem if it has a name.
func (w *lbWishes) classOf(name string, classes map[string]*config.LoadBalancerClass) *config.LoadBalancerClass {
	if c := classes[name]; c != nil {
		return c
	}
	if name != "" {
		path := cloud.AnnotationPath(annClass)
		if w.spec.Class != "" {
			path = field.NewPath("spec", "loadBalancerClass")
		}
		w.refuse(field.Invalid(path, name, fmt.Sprintf("cloud.conf has no [LoadBalancerClass %q]; it has %s", name,
			orNone(strings.Join(classNames(classes), ", ")))))
	}
	return &config.LoadBalancerClass{}
}

// classNames are the names of classes that Services can pick.
func classNames(classes map[string]*config.LoadBalancerClass) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(classes)), func(name string) bool { return name == "" })
}

// places decides on networks and subnets. internal must be known.
func (w *lbWishes) places(classes map[string]*config.LoadBalancerClass) {
	s, lb, name := w.spec.Settings, w.cfg, w.class()
	class, first := &config.LoadBalancerClass{}, w.classOf("", classes)
	if name != "" {
		class = w.classOf(name, classes)
		if !w.internal {
			first = class
		}
	}
	vipSubnet := s.String(annSubnetID, "")
	w.vip.subnetID = cmp.Or(first.SubnetID, vipSubnet, class.SubnetID, lb.SubnetID)
	w.vip.networkID = cmp.Or(first.NetworkID, s.String(annNetworkID, ""), class.NetworkID, lb.NetworkID)

	w.memberSubnet = cmp.Or(s.String(annMemberSubnetID, ""), class.MemberSubnetID, lb.MemberSubnetID)
	w.likelySubnet = cmp.Or(lb.SubnetID, vipSubnet, class.SubnetID)
	w.likelySubnetLater = cmp.Or(lb.SubnetID, vipSubnet)
	if name != "" {
		w.likelySubnetLater = cmp.Or(lb.SubnetID, class.SubnetID)
	}

	w.fip.networkID = cmp.Or(class.FloatingNetworkID, s.String(annFloatingNetworkID, lb.FloatingNetworkID))
	w.fip.floatingSubnet = firstSubnet(
		floatingSubnet{class.FloatingSubnetID, class.FloatingSubnet, class.FloatingSubnetTags},
		floatingSubnet{s.String(annFloatingSubnetID, ""), s.String(annFloatingSubnet, ""), s.String(annFloatingSubnetTags, "")},
		floatingSubnet{lb.FloatingSubnetID, lb.FloatingSubnet, lb.FloatingSubnetTags})
}

// floatingSubnet says which subnet a floating IP is taken from.
type floatingSubnet struct{ subnetID, subnetName, subnetTags string }

// firstSubnet is the first that says anything.
func firstSubnet(choices ...floatingSubnet) floatingSubnet {
	for _, c := range choices {
		switch {
		case c.subnetID != "":
			return floatingSubnet{subnetID: c.subnetID}
		case c != floatingSubnet{}:
			return c
		}
	}
	return floatingSubnet{}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
