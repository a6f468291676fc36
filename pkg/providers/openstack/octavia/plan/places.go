package plan

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
func (svc *Service) class() string {
	name := svc.Spec.Settings.String(AnnClass, "")
	if svc.Spec.Class != "" && name != "" && name != svc.Spec.Class {
		svc.refuse(field.Invalid(cloud.AnnotationPath(AnnClass), name, fmt.Sprintf("spec.loadBalancerClass picks the class %q: remove the annotation", svc.Spec.Class)))
	}
	return cmp.Or(svc.Spec.Class, name)
}

// classOf is the section of the class of that name, an empty one where there is none, which is a
// problem if it has a name.
func (svc *Service) classOf(name string, classes map[string]*config.LoadBalancerClass) *config.LoadBalancerClass {
	if c := classes[name]; c != nil {
		return c
	}
	if name != "" {
		path := cloud.AnnotationPath(AnnClass)
		if svc.Spec.Class != "" {
			path = field.NewPath("spec", "loadBalancerClass")
		}
		svc.refuse(field.Invalid(path, name, fmt.Sprintf("cloud.conf has no [LoadBalancerClass %q]; it has %s", name,
			cmp.Or(strings.Join(ClassNames(classes), ", "), "none"))))
	}
	return &config.LoadBalancerClass{}
}

// ClassNames are the names of classes that Services can pick.
func ClassNames(classes map[string]*config.LoadBalancerClass) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(classes)), func(name string) bool { return name == "" })
}

// places decides on networks and subnets. internal must be known.
func (svc *Service) places(classes map[string]*config.LoadBalancerClass) {
	s, lb, name := svc.Spec.Settings, svc.Config, svc.class()
	class, first := &config.LoadBalancerClass{}, svc.classOf("", classes)
	if name != "" {
		class = svc.classOf(name, classes)
		if !svc.Internal {
			first = class
		}
	}
	vipSubnet := s.String(AnnSubnetID, "")
	svc.VIP.SubnetID = cmp.Or(first.SubnetID, vipSubnet, class.SubnetID, lb.SubnetID)
	svc.VIP.NetworkID = cmp.Or(first.NetworkID, s.String(AnnNetworkID, ""), class.NetworkID, lb.NetworkID)

	svc.MemberSubnet = cmp.Or(s.String(AnnMemberSubnetID, ""), class.MemberSubnetID, lb.MemberSubnetID)
	svc.LikelySubnet = cmp.Or(lb.SubnetID, vipSubnet, class.SubnetID)
	svc.likelySubnetLater = cmp.Or(lb.SubnetID, vipSubnet)
	if name != "" {
		svc.likelySubnetLater = cmp.Or(lb.SubnetID, class.SubnetID)
	}

	svc.FloatingIP.NetworkID = cmp.Or(class.FloatingNetworkID, s.String(AnnFloatingNetworkID, lb.FloatingNetworkID))
	svc.FloatingIP.floatingSubnet = cmp.Or(
		floatingSubnet{class.FloatingSubnetID, class.FloatingSubnet, class.FloatingSubnetTags},
		floatingSubnet{s.String(AnnFloatingSubnetID, ""), s.String(AnnFloatingSubnet, ""), s.String(AnnFloatingSubnetTags, "")},
		floatingSubnet{lb.FloatingSubnetID, lb.FloatingSubnet, lb.FloatingSubnetTags})
	if id := svc.FloatingIP.SubnetID; id != "" {
		svc.FloatingIP.floatingSubnet = floatingSubnet{SubnetID: id}
	}
}
